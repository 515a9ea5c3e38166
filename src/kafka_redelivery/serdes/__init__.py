"""Codecs between the bytes of records and Python values, and their schemas."""
