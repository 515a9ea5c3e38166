"""A dead letter of another system, with the same fields as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_redelivery.dead_letters.foreign.connect import CONNECT
from kafka_redelivery.dead_letters.foreign.failure import Failure, System, binary_number, having, text
from kafka_redelivery.dead_letters.foreign.karafka import KARAFKA, KARAFKA_BEFORE_2_5
from kafka_redelivery.dead_letters.foreign.mapping import mapped
from kafka_redelivery.dead_letters.foreign.spring import SPRING
from kafka_redelivery.dead_letters.foreign.streams import STREAMS
from kafka_redelivery.dead_letters.foreign.wolverine import WOLVERINE
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.topology.wire.headers import REDRIVE, HeaderList, Headers
from kafka_redelivery.topology.wire.redrive_mark import parse_mark

SYSTEMS: Final = (SPRING, CONNECT, STREAMS, KARAFKA, KARAFKA_BEFORE_2_5, WOLVERINE)
"""The systems that are recognised, the most certain first."""

UNKNOWN: Final = System(name="", recognises=having(), read=lambda _: Failure(), removed=())
_BINARY: Final = frozenset[str]().union(*(system.binary for system in SYSTEMS))


def system_of(headers: Headers, mapping: Mapping[str, str]) -> System:
    """Return the system that has written a dead letter. A mapping is used for all letters, if there is one.

    Of several systems it is the one whose headers come last: each appends its own. The others are of a system that the
    record passed before, or a producer of the source has set them, who could else choose where the letter is sent.
    """
    if mapping:
        return mapped(mapping)
    values = dict(headers)
    found = [system for system in SYSTEMS if system.recognises(values)]
    if len(found) > 1:
        names = [name for name, _ in headers]
        found.sort(key=lambda system: max(place for place, name in enumerate(names) if system.removes(name)))
    return found[-1] if found else UNKNOWN


def lacks_content(system: System, key: bytes | None, *, has_value: bool) -> bool:
    """Whether a letter says nothing of its record: it has no value, and the record was no tombstone as far as is known.

    Share groups of Kafka write neither key nor value by default, and Kafka Streams neither of a record that was too
    large.
    """
    return not has_value and (key is None or not system.keeps_content)


def foreign_letter(
    place: tuple[str, int, int],
    timestamp_ms: int,
    key: bytes | None,
    headers: Headers,
    mapping: Mapping[str, str],
    *,
    has_value: bool = True,
) -> Letter:
    """Return a record of another system's dead-letter topic as a letter.

    Args:
        place: its topic, partition and offset.
        timestamp_ms: when it died (epoch ms).
        key: its key.
        headers: its headers.
        mapping: which header has what, by the names of :data:`mapping.FIELDS`; empty for a system that is recognised.
        has_value: whether its value is not null.
    """
    values, system = dict(headers), system_of(headers, mapping)
    failure = system.read(values)
    named = failure.topic and None not in {failure.partition, failure.offset}
    return Letter(
        *place,
        timestamp_ms,
        key,
        values,
        failure.group,
        failure.topic,
        f"{failure.topic}-{failure.partition}@{failure.offset}" if named else "",
        "" if failure.attempts is None else str(failure.attempts),
        failure.reason,
        failure.exception,
        failure.message,
        0,
        parse_mark(text(values.get(REDRIVE))),
        no_content=lacks_content(system, key, has_value=has_value),
    )


def sent_again(headers: Headers, system: System, mark: str) -> HeaderList:
    """Return the headers of the record that a letter becomes: without those of its failure.

    Args:
        headers: those of the letter.
        system: the system that has written it.
        mark: says which letter it was, see :mod:`topology.wire.redrive_mark`; empty for none. A system that copies
            headers to its dead letters, as Spring Kafka does, thus says how often the record was sent again.
    """
    kept = [
        (name, value)
        for name, value in headers
        if not system.removes(name) and not (name == REDRIVE and parse_mark(text(value)))
    ]
    return [*kept, (REDRIVE, mark.encode())] if mark else kept


def header_text(name: str, value: bytes | None) -> str | None:
    """Return a header for people: numbers in binary that a known system writes are decimal."""
    found = binary_number(value) if name in _BINARY else None
    if found is not None:
        return str(found)
    return None if value is None else value.decode(errors="replace")
