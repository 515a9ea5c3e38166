"""The client of a running ActiveMQ."""
