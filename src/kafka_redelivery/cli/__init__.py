"""The command line, `redelivery`. It reads options, calls the packages below and prints results."""
