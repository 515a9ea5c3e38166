"""Reads dead letters, each with where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.created_again import refuse_created_again
from kafka_redelivery.dead_letters.foreign.letter import foreign_letter
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Letter, letter_of
from kafka_redelivery.dead_letters.letter_places import letter_ends
from kafka_redelivery.dead_letters.standing import Standing, Standings
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Message, Partition

_REPORTED_EACH = 1000

ReportProgress = Callable[[int, int], None]
"""Receives the finished and the total number."""


def no_progress(done: int, total: int) -> None:
    """Do nothing: the progress is not shown."""


class StoredLetter(NamedTuple):
    """A dead letter, where it stands, and its record."""

    letter: Letter
    standing: Standing
    message: Message


def stored_letter(message: Message, standings: Standings, settings: Settings) -> StoredLetter:
    """Return a record of a dead-letter topic with all that is known about it."""
    headers: HeaderList = []
    with suppress(UnreadableHeadersError):
        headers = headers_of(message)
    place = message.topic(), message.partition(), message.offset()
    if isinstance(settings, ForeignTopic):
        at_ms, has_value = message.timestamp()[1], message.value() is not None
        letter = foreign_letter(place, at_ms, message.key(), headers, settings.mapping, has_value=has_value)
    else:
        class_only = settings.failure_details.class_only
        letter = letter_of(*place, message.timestamp()[1], message.key(), headers, class_only=class_only)
    return StoredLetter(letter, standings.of(*place), message)


def dead_letters(
    settings: Settings, ledger: Ledger, progress: ReportProgress, ends: Mapping[Partition, int] | None = None
) -> Iterator[StoredLetter]:
    """Yield all dead letters, those of other groups included.

    Args:
        settings: how to reach Kafka, and the names of topics.
        ledger: what became of the letters.
        progress: receives the number of letters that were read, now and then.
        ends: yield the letters below these; without it, below the present ends.

    Raises:
        RedriveError: the cluster shows no dead-letter topic, or one is created again meanwhile.
        TransportError: Kafka does not answer or denies access.
    """
    ends = letter_ends(settings, ledger.partition_counts) if ends is None else ends
    starts = PartitionOffsets(settings.kafka).log_start_offsets(ends)
    total, standings = sum(max(0, end - starts[each]) for each, end in ends.items()), ledger.standings()
    try:
        for number, message in enumerate(read_between(settings.kafka, settings.group, starts, ends)):
            if number % _REPORTED_EACH == 0:
                progress(number, total)
            yield stored_letter(message, standings, settings)
    except ReaderError:  # a topic that was created again may end before these ends
        before = ledger.topics.only(each.topic for each in ends)
        refuse_created_again(before, ledger.present(before.ids), "done", "its letters were counted")
        raise


def one_dead_letter(settings: Settings, ledger: Ledger, name: str) -> StoredLetter:
    """Return the dead letter with this id.

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
            each = stored_letter(message, ledger.standings(), settings)
            group = each.letter.group
            if group and not ledger.has(each.letter):
                raise RedriveError(f"{name} is a dead letter of group {group}; add --of-group {group}")
            return each
    raise RedriveError(
        f"there is no dead letter {name} (any more); `redelivery dlq list --each` prints ids, and with --id {name} the "
        "id of the letter, if this is its source record"
    )
