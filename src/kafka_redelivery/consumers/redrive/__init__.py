"""Sends dead letters again, each exactly once: `redelivery dlq`."""
