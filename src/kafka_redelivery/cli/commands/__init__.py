"""The commands of `redelivery`."""
