"""The archive: dead letters in a table of the lake, each exactly once."""
