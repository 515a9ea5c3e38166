"""Codecs between the bytes of records and Python values, their schemas, and the envelope of a dead letter."""
