"""The dead-letter topics: their partitions, ends and ids, and their records as letters.

The ids are asked for before letters are read, and again as late as possible before something is done with them. An id
never comes back. So letters that were read between two equal answers are those of the topic with this id. What is left
is the time that Kafka takes to tell all its brokers of a new topic, and that of a request by name, such as the removal
of records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.foreign.letter import foreign_letter
from kafka_redelivery.dead_letters.letter import Letter, Standing, letter_document, letter_of
from kafka_redelivery.dead_letters.pointers import Source
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, letter_topics
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import topic_ids
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of, readable_headers
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)

ReportProgress = Callable[[int, int], None]
"""Receives the finished and the total number."""


def no_progress(done: int, total: int) -> None:
    """Do nothing: the progress is not shown."""


class StoredLetter(NamedTuple):
    """A dead letter, where it stands, and its record."""

    letter: Letter
    standing: Standing
    message: Message

    def document(self) -> dict[str, Any]:
        """Return it as plain data for JSON, without its value; with ``failureDetails: class-only`` as the index does.

        That is without key and text of the exception.
        """
        if self.letter.class_only:
            return letter_document(self.letter._replace(message=""), self.standing, None)
        key = self.letter.key
        return letter_document(self.letter, self.standing, None if key is None else key.decode(errors="replace"))

    def exported(self, source: Source | None = None) -> dict[str, Any]:
        """Return it with all its bytes as plain data for JSON.

        Of a letter without content ``content`` says so: ``pointer``. If its record was looked for it is ``gone``, or
        ``fetched``; then key and value are those of the record. It stays a pointer while a transaction is open there.
        """
        letter, standing, message = self
        record = None if source is None else source.record
        key, value = (message.key(), message.value()) if record is None else (record.key(), record.value())
        try:
            headers: HeaderList | None = headers_of(message)
        except UnreadableHeadersError:
            headers = None
        found = ExportedLetter(letter.id, letter.died_ms, key, value, headers or [], standing.state)
        document = found.document(letter.source_id)
        if headers is None:
            document["headers"] = None
        if letter.no_content:
            document["content"] = (
                "pointer" if source is None or source.waits else "gone" if record is None else "fetched"
            )
        return document


def letter_in(message: Message, settings: LetterSource) -> Letter:
    """Return a record of a dead-letter topic as a letter."""
    headers = readable_headers(message)
    place = message.topic(), message.partition(), message.offset()
    if isinstance(settings, OtherSystem):
        at_ms, has_value = message.timestamp()[1], message.value() is not None
        return foreign_letter(place, at_ms, message.key(), headers, settings.recognition, has_value=has_value)
    class_only = settings.failure_details.class_only
    return letter_of(*place, message.timestamp()[1], message.key(), headers, class_only=class_only)


def letter_topic_ids(settings: LetterSource, calls: AdminCalls) -> TopicIds:
    """Return the present ids of the dead-letter topics.

    Raises:
        TransportError: Kafka does not answer, or refuses for another reason than rights on a topic.
    """
    return topic_ids(calls, letter_topics(settings))


def refuse_created_again(before: TopicIds, now: TopicIds, undone: str = "sent", since: str = "the preview") -> None:
    """Refuse to go on if what was read is about other letters now.

    Args:
        before: the ids before the letters were read.
        now: the present ids.
        undone: what was not done with them.
        since: when the letters were read.

    Raises:
        RedriveError: a topic was deleted and created again, or the cluster is another one.
    """
    problem = before.difference(now, since)
    if problem:
        raise RedriveError(f"{problem}; nothing was {undone}; preview again")


def letter_ends(
    settings: LetterSource, partition_counts: Mapping[str, int], offsets: PartitionOffsets | None = None
) -> dict[Partition, int]:
    """Return the present ends of the dead-letter topics, without open transactions.

    Args:
        settings: how to reach Kafka, and the names of topics.
        partition_counts: the topics of the cluster.
        offsets: asks for the ends; without it a new client does.

    Raises:
        RedriveError: the cluster shows none of them.
        TransportError: Kafka does not answer or denies access.
    """
    offsets = offsets or PartitionOffsets(settings.kafka)
    return offsets.last_stable_offsets(letter_partitions(settings, partition_counts))


def letter_partitions(settings: LetterSource, partition_counts: Mapping[str, int]) -> list[Partition]:
    """Return the partitions of the dead-letter topics, and log a warning that names those that are not shown.

    Raises:
        RedriveError: the cluster shows none of them.
    """
    topics = letter_topics(settings)
    hidden = [topic for topic in topics if topic not in partition_counts]
    right = grant(f"Read on topic {', '.join(hidden)}")
    if len(hidden) == len(topics):
        fix = "correct --topic" if isinstance(settings, OtherSystem) else "see `redelivery topology check`"
        raise RedriveError(f"there is no dead-letter topic {', '.join(topics)}, or none may be described; {fix}{right}")
    if hidden:
        _log.warning(
            "dead letters in %s are left out: it does not exist, or may not be described%s", ", ".join(hidden), right
        )
    return [Partition(topic, number) for topic in topics for number in range(partition_counts.get(topic, 0))]
