"""A dead letter of another system, with the same fields as ours."""

from __future__ import annotations

from typing import Final

from kafka_redelivery.dead_letters.foreign.systems import (
    ANY,
    SYSTEMS,
    UNKNOWN,
    Place,
    Recognition,
    System,
    binary_number,
    claimed_by,
    mapped,
    text,
)
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.topology.wire.headers import REDRIVE, HeaderList, Headers, parse_mark

_BINARY: Final = frozenset[str]().union(*(system.binary for system in SYSTEMS))


def system_of(headers: Headers, recognition: Recognition = ANY) -> System:
    """Return the system that has written a dead letter. A mapping is used for all letters, if there is one.

    A record may bring headers of another system that it passed before, or that a producer of the source has set. So of
    several systems it is the one whose own headers are where it writes them. If one that writes before the record's
    headers and one that writes behind them could both be it, a person has to say which.
    """
    if recognition.mapping:
        return mapped(dict(recognition.mapping))
    found = _claimants(headers)
    for system in found:
        if system.name == recognition.system or len(found) == 1:
            return system
    return claimed_by(found) if found else UNKNOWN


def _claimants(headers: Headers) -> list[System]:
    values = dict(headers)
    found = [system for system in SYSTEMS if system.recognises(values)]
    if len(found) < 2:  # noqa: PLR2004 - no other could be it
        return found
    names = [name for name, _ in headers]

    def last(system: System) -> int:
        return max(place for place, name in enumerate(names) if system.removes(name))

    first = [system for system in found if system.place is Place.FIRST and system.removes(names[0])]
    appended = sorted((system for system in found if system.place is Place.LAST), key=last)[-1:]
    return [*first, *appended] or found


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
    recognition: Recognition = ANY,
    *,
    has_value: bool = True,
) -> Letter:
    """Return a record of another system's dead-letter topic as a letter.

    Args:
        place: its topic, partition and offset.
        timestamp_ms: when it died (epoch ms).
        key: its key.
        headers: its headers.
        recognition: what a person says about its system.
        has_value: whether its value is not null.
    """
    system = system_of(headers, recognition)
    values, failure = system.values(headers), system.read(headers)
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
        system=system.name,
    )


def sent_again(headers: Headers, system: System, mark: str) -> HeaderList:
    """Return the headers of the record that a letter becomes: without those of its failure.

    Args:
        headers: those of the letter.
        system: the system that has written it.
        mark: says which letter it was, see :mod:`topology.wire.headers`; empty for none. A system that copies
            headers to its dead letters, as Spring Kafka does, thus says how often the record was sent again.
    """
    kept = [
        (name, value)
        for name, value in headers
        if not system.removes(name) and not (name == REDRIVE and parse_mark(text(value)))
    ]
    return [*kept, (REDRIVE, mark.encode())] if mark else kept


def header_text(name: str, value: bytes | None, system: str = "") -> str | None:
    """Return a header for people: numbers in binary that its system, or any if it is not known, writes are decimal."""
    binary = next((each.binary for each in SYSTEMS if each.name == system), _BINARY)
    found = binary_number(value) if name in binary else None
    if found is not None:
        return str(found)
    return None if value is None else value.decode(errors="replace")
