"""Reads single dead letters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.foreign.letter import foreign_letter
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Letter, letter_of
from kafka_redelivery.dead_letters.letter_places import letter_ends
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.dead_letters.standing import Standing
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.protocols import Message, Partition

ReportProgress = Callable[[int, int], None]
"""Receives the finished and the total number."""


def no_progress(done: int, total: int) -> None:
    """Do nothing: the progress is not shown."""


class StoredLetter(NamedTuple):
    """A dead letter, where it stands, and its record."""

    letter: Letter
    standing: Standing
    message: Message


def letter_in(message: Message, settings: LetterSource) -> Letter:
    """Return a record of a dead-letter topic as a letter."""
    headers: HeaderList = []
    with suppress(UnreadableHeadersError):
        headers = headers_of(message)
    place = message.topic(), message.partition(), message.offset()
    if isinstance(settings, OtherSystem):
        at_ms, has_value = message.timestamp()[1], message.value() is not None
        return foreign_letter(place, at_ms, message.key(), headers, settings.mapping, has_value=has_value)
    class_only = settings.failure_details.class_only
    return letter_of(*place, message.timestamp()[1], message.key(), headers, class_only=class_only)


def one_dead_letter(settings: LetterSource, ledger: Ledger, name: str) -> tuple[Letter, Message]:
    """Return the dead letter with this id, and its record.

    Raises:
        RedriveError: there is none, or it is one of another group than the ledger.
        TransportError: Kafka does not answer or denies access.
    """
    try:
        topic, number, offset = parse_message_id(name)
    except ValueError as error:
        raise RedriveError(f"{error}; `redelivery dlq list --each` prints ids") from None
    partition = Partition(topic, number)
    ends = letter_ends(settings, ledger.partition_counts)
    if offset < ends.get(partition, 0):
        for message in read_between(settings.kafka, settings.group, {partition: offset}, {partition: offset + 1}):
            letter = letter_in(message, settings)
            if letter.group and not ledger.has(letter):
                raise RedriveError(f"{name} is a dead letter of group {letter.group}; add --of-group {letter.group}")
            return letter, message
    raise RedriveError(
        f"there is no dead letter {name} (any more); `redelivery dlq list --each` prints ids, and with --id {name} the "
        "id of the letter, if this is its source record"
    )
