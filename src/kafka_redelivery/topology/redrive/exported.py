"""A dead letter as `redelivery dlq export` prints it: one JSON object, byte for byte.

==============  ============================================================================
field           content
==============  ============================================================================
``version``     1
``id``          ``topic-partition@offset`` of the dead letter
``sourceId``    the same of its source record, for people; empty if its headers do not say it
``timestampMs`` when it died
``state``       what had become of it, for people
``key``         base64, or null
``value``       base64, or null
``headers``     pairs of a name and a value in base64, or null; null if a name is not UTF-8 and they are unreadable
==============  ============================================================================
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from kafka_redelivery.topology.errors import ExportedLetterError
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.wire.control import whole
from kafka_redelivery.topology.wire.headers import HeaderList

VERSION = 1


class ExportedLetter(NamedTuple):
    """A dead letter with all its bytes."""

    id: str
    """``topic-partition@offset`` of the dead letter."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: HeaderList
    state: str = ""
    """What had become of it when it was exported."""

    @classmethod
    def parse(cls, letter: str | bytes | Mapping[str, Any]) -> Self:
        """Read a line of the export, or the object that it contains.

        Raises:
            ExportedLetterError: it is none, or a newer version has written it.
        """
        try:
            fields = _fields(letter)
            parse_message_id(fields["id"])
            return cls(
                fields["id"],
                whole(fields["timestampMs"], least=-1),
                _bytes(fields["key"]),
                _bytes(fields["value"]),
                [(_name(name), _bytes(value)) for name, value in fields["headers"]],
                str(fields.get("state", "")),
            )
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ExportedLetterError(f"{type(error).__name__}: {error}") from None

    def document(self, source_id: str) -> dict[str, Any]:
        """Return the letter as plain data for JSON."""
        return {
            "version": VERSION,
            "id": self.id,
            "sourceId": source_id,
            "timestampMs": self.timestamp_ms,
            "state": self.state,
            "key": _base64(self.key),
            "value": _base64(self.value),
            "headers": [[name, _base64(value)] for name, value in self.headers],
        }


def _fields(letter: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = letter if isinstance(letter, Mapping) else json.loads(letter)
    if fields["version"] != VERSION:
        raise ValueError(f"it has version {fields['version']}, this program reads {VERSION}")
    return fields


def _name(text: str) -> str:
    text.encode()  # JSON can name lone surrogates, which no header can have
    return text


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
