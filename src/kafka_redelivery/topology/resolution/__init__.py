"""Resolves what Classic's maps or Artemis's address settings mean for one destination on Kafka."""
