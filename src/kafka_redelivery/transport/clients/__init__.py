"""Readers and writers: the only code that fetches records, produces them and commits offsets."""
