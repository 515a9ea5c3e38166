"""What the records of jobs and of actions have in common: a key, and a JSON object with ``version`` and ``type``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka_redelivery.topology.errors import RedriveRecordError

_VERSION = 1
_SHOWN = 100
"""Characters of a key in an error."""


class StoredRecord(NamedTuple):
    """A record of the topic of the jobs or of the actions."""

    key: bytes
    value: bytes


def stored_record(key: str, kind: str, **fields: object) -> StoredRecord:
    """Return a record of this version."""
    value = {"version": _VERSION, "type": kind, **fields}
    return StoredRecord(key.encode(), json.dumps(value, separators=(",", ":")).encode())


def fields_of(value: bytes | None) -> dict[str, Any] | None:
    """Return the fields of a record; ``None`` if another program wrote it: this project gives each one a version."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "version" in found else None


@contextmanager
def reading(key: bytes | None, fields: dict[str, Any]) -> Iterator[str]:
    """Yield the key of a record as text, while a block reads its fields.

    Raises:
        RedriveRecordError: the record has another version, or a field cannot be read.
    """
    name = repr(key)[:_SHOWN]
    try:
        if fields["version"] != _VERSION:
            raise RedriveRecordError(name, f"version {fields['version']!r}; this program reads {_VERSION}")
        yield (key or b"").decode()
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise RedriveRecordError(name, f"{type(error).__name__}: {error}") from None
