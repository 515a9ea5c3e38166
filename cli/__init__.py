"""The `redelivery` command, a thin layer over the packages below."""
