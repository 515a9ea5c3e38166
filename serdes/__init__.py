"""Codecs between bytes on a topic and values in Python, the schemas they need, and the envelope of a dead letter."""
