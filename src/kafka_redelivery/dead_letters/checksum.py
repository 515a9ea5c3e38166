"""By what values are compared that are not kept."""

from __future__ import annotations

import hashlib


def checksum(value: bytes) -> str:
    """Return the SHA-256 of a value in hex digits."""
    return hashlib.sha256(value).hexdigest()
