"""What the records of jobs and of actions have in common: a key, and a JSON object with ``version`` and ``type``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from kafka_redelivery.topology.errors import RedriveRecordError

_VERSION: Final = 1
EDITS_VERSION: Final = 2
"""Of the records of a job with an edited value: a program that only knows version 1 would send the letter's own."""

TOPICS_VERSION: Final = 3
"""Of the records of a job with the ids of its topics: an earlier program would send from a topic of the same name."""

SYSTEMS_VERSION: Final = 4
"""Of the records of a job that says how letters of other systems are recognised: earlier ones did not say it."""

JOB_VERSIONS: Final = (_VERSION, EDITS_VERSION, TOPICS_VERSION, SYSTEMS_VERSION)
"""What the topic of the jobs may have."""

_SHOWN: Final = 100
"""Characters of a key in an error."""


class StoredRecord(NamedTuple):
    """A record of the topic of the jobs or of the actions."""

    key: bytes
    value: bytes


def stored_record(key: str, kind: str, *, version: int = _VERSION, **fields: object) -> StoredRecord:
    """Return a record."""
    value = {"version": version, "type": kind, **fields}
    return StoredRecord(key.encode(), json.dumps(value, separators=(",", ":")).encode())


def fields_of(value: bytes | None) -> dict[str, Any] | None:
    """Return the fields of a record; ``None`` if another program wrote it: this project gives each one a version."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "version" in found else None


@contextmanager
def reading(key: bytes | None, fields: dict[str, Any], versions: tuple[int, ...] = (_VERSION,)) -> Iterator[str]:
    """Yield the key of a record as text, while a block reads its fields.

    Args:
        key: the key of the record.
        fields: its fields.
        versions: the versions that the block can read.

    Raises:
        RedriveRecordError: the record has another version, or a field cannot be read.
    """
    name = repr(key)[:_SHOWN]
    try:
        if fields["version"] not in versions:
            readable = " and ".join(filter(None, (", ".join(map(str, versions[:-1])), str(versions[-1]))))
            raise RedriveRecordError(name, f"version {fields['version']!r}; this program reads {readable}")
        yield (key or b"").decode()
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise RedriveRecordError(name, f"{type(error).__name__}: {error}") from None
