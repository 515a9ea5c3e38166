"""The streaming query on the driver: group membership, checkpoint, micro-batches, metrics and shutdown."""
