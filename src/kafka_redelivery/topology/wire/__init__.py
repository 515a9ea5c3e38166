"""The wire format: record headers, expiration, and progress in the metadata of a commit."""
