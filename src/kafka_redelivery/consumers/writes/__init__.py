"""Writes: outcomes become produced records and committed offsets, in one Kafka transaction per batch."""
