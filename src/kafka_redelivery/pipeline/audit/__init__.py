"""The audit: what became of every source record, and which records are missing or duplicated."""
