"""Moves the messages of an ActiveMQ dead-letter queue to dead-letter topics.

A chunk is written in one Kafka transaction, and acknowledged to the broker when that is committed. A process or broker
that ends in between leaves messages in the queue that are in the topic, too. They are recognised by their identity
(``dlqImportedFrom``), and then only acknowledged. So each message becomes one dead letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol, TypeAlias

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.ledger import open_dlq_writer, refusal
from kafka_redelivery.dead_letters.reading import letter_partitions, letter_topic_ids, refuse_created_again
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import CHUNK, CHUNK_BYTES
from kafka_redelivery.topology.wire.headers import IMPORTED_FROM
from kafka_redelivery.transport.activemq.broker_message import BrokerMessage
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import (
    WriteAbortedError,
    WriterChangedError,
    WriteRefusedError,
    WriterFencedError,
)
from kafka_redelivery.transport.protocols import Partition, ProducerRecord

_ATTEMPTS = 5
_PAUSE_S = 1.0
_PART_S = 0.3
"""A chunk is written when no message comes for this time: the broker may wait for acknowledgements."""


_SHADOWED = "a property is called like a header of STOMP: ack, expires, priority, timestamp or another"


class Inbox(Protocol):
    """The queue of the broker."""

    def receive(self, within_s: float) -> BrokerMessage | None:
        """Return the next message; ``None`` if none arrives within the time."""
        ...

    def acknowledge(self, messages: list[BrokerMessage]) -> None:
        """Remove messages from the queue; return when the broker has confirmed it."""
        ...

    def widen(self) -> bool:
        """Have all messages delivered again that are left, and more; whether these may have kept back others."""
        ...

    def stored(self) -> int | None:
        """Return how many messages the queue has, those included that other readers hold; ``None`` if unknown."""
        ...

    def shadowed(self) -> int:
        """Return how many messages it does not deliver because a property of theirs is called like one of STOMP's."""
        ...


@dataclass(slots=True)
class Drained:
    """What was, or would be, done with the messages of the queue."""

    topics: Counter[str] = field(default_factory=Counter)
    """Dead letters written, by dead-letter topic."""

    present: int = 0
    """Messages that were in their topic already, from an import that was ended."""

    without_source: Counter[str] = field(default_factory=Counter)
    """Messages left in the queue, by destination: no source of the configuration has it."""

    unknown_content: Counter[str] = field(default_factory=Counter)
    """Messages left in the queue, because it is not known that STOMP shows all that they contain, by the reason."""

    refused: Counter[str] = field(default_factory=Counter)
    """Messages left in the queue, because Kafka refuses their dead letters, by the reason for one of them."""

    held: int | None = None
    """Messages that the queue has and did not deliver: another reader holds them, or one that was killed.

    ``None`` if the broker does not say it, or not all messages were meant.
    """

    def count_left_anew(self) -> None:
        """Count the messages anew that are delivered and stay."""
        self.without_source.clear()
        self.refused.clear()
        self.unknown_content.clear()

    @property
    def left(self) -> int:
        """Number of messages left in the queue, as far as it is known."""
        known = self.without_source.total() + self.unknown_content.total() + self.refused.total()
        return known + (self.held or 0)


_Messages: TypeAlias = list[tuple[BrokerMessage, ProducerRecord | None]]
"""Messages that are acknowledged when their records are written; without a record it is in its topic already."""


class Drain:
    """One import from a queue."""

    def __init__(self, settings: Settings, origin: str | None, key: str) -> None:
        """Ask which topics there are.

        Args:
            settings: the configuration.
            origin: the source that all messages belong to; ``None``: the one that has their destination.
            key: the property whose value becomes the key.

        Raises:
            RedriveError: the origin is no source, or has no dead-letter topic; or the cluster shows none.
            TransportError: Kafka does not answer or denies access.
        """
        self._settings, self._origin, self._key = settings, origin, key
        self._counts: Mapping[str, int] = ClusterAdmin(settings.kafka).partition_counts()
        self._partitions = letter_partitions(settings, self._counts)
        self._targets = letter_targets(settings, self._counts)
        self._offsets = PartitionOffsets(settings.kafka)
        self._ids = letter_topic_ids(settings, self._offsets.calls)
        if origin is not None and origin not in self._targets:
            known = ", ".join(sorted(self._targets)) or "none"
            raise RedriveError(f"{origin} is no source with a dead-letter topic in this cluster; there are: {known}")
        self._present: set[str] = set()
        self._whys: dict[str, str] = {}
        """By topic, why Kafka refuses the first dead letter that is too large: the text of each has its size."""

        self._refused: dict[str, str] = {}
        """Of messages that are no dead letters because of Kafka, by their identity the reason."""

        self._read: dict[Partition, int] = {}
        self.result = Drained()

    def preview(self, inbox: Inbox, stop: Event, limit: int | None, wait_s: float) -> Drained:
        """Return what :meth:`run` would do with the messages that the queue shows. Changes nothing."""
        self._look()
        while not self._full(limit) and not stop.is_set() and (message := inbox.receive(wait_s)) is not None:
            if (record := self._record(message)) is not None:
                self.result.topics[record.topic] += 1
        self._note_held(inbox, stop, limit, self.result.topics.total() + self.result.present)
        return self.result

    def run(
        self, inbox: Inbox, stop: Event, limit: int | None, wait_s: float, progress: Callable[[int], None]
    ) -> Drained:
        """Move messages until none comes for ``wait_s`` seconds, ``limit`` are moved, or ``stop`` is set.

        Raises:
            RedriveError: Kafka does not take a letter, another import for the group has begun, or a topic was deleted
                and created again. Import again.
            TransportError: Kafka or the broker does not answer, or denies access.
        """
        with closing(open_dlq_writer(self._settings, self._settings.group, "import", one_attempt=True)) as writer:
            self._look()  # the writer has ended the transaction of its predecessor
            while not stop.is_set() and not self._full(limit):
                chunk = self._chunk(inbox, limit, wait_s)
                if chunk:
                    done = self._write(writer, chunk, stop)
                    # Those that seem to be in their topics may be in one that is deleted.
                    now = letter_topic_ids(self._settings, self._offsets.calls)
                    refuse_created_again(self._ids, now, "removed from the queue", "the import began")
                    inbox.acknowledge(done)
                    progress(self.result.topics.total())
                elif inbox.widen():
                    self.result.count_left_anew()  # they come again
                else:
                    break
        self._note_held(inbox, stop, limit, 0)
        return self.result

    def _note_held(self, inbox: Inbox, stop: Event, limit: int | None, taken: int) -> None:
        """Note how many of the messages in the queue were not delivered, if all of them were wanted.

        ``taken`` are in the queue and do not count as left.
        """
        if limit is not None or stop.is_set():
            return
        if shadowed := inbox.shadowed():
            self.result.unknown_content[_SHADOWED] += shadowed
        stored = inbox.stored()
        self.result.held = None if stored is None else max(0, stored - taken - self.result.left)

    def _full(self, limit: int | None) -> bool:
        return limit is not None and self.result.topics.total() >= limit

    def _chunk(self, inbox: Inbox, limit: int | None, wait_s: float) -> _Messages:
        """Return messages to acknowledge, each with its record, or none if that is in its topic already."""
        found: _Messages = []
        size = new = 0
        room = CHUNK if limit is None else min(CHUNK, limit - self.result.topics.total())
        while new < room and len(found) < CHUNK and size < CHUNK_BYTES:
            message = inbox.receive(_PART_S if found else wait_s)
            if message is None:
                break
            before = self.result.present
            record = self._record(message)
            if record is not None or self.result.present > before:
                found.append((message, record))
                new += record is not None
                size += len(message.body)
        return found

    def _record(self, message: BrokerMessage) -> ProducerRecord | None:
        """Return the dead letter that a message becomes; ``None``, and a count, if it becomes none."""
        source = self._origin or self._settings.topic_of(message.destination or "-")
        if source not in self._targets:
            self.result.without_source[message.destination] += 1
        elif message.unknown_content:
            self.result.unknown_content[message.unknown_content] += 1
        elif message.identity in self._refused:  # it is delivered once more
            self.result.refused[self._refused[message.identity]] += 1
        elif message.identity in self._present:
            self.result.present += 1
        else:
            self._present.add(message.identity)
            topic, key = self._targets[source][message.is_expired], message.key(self._key)
            lineage = message.lineage(source, key, self._counts.get(source, self._counts[topic]))
            headers = message.dead_letter(lineage, self._settings.group)
            return ProducerRecord(topic, lineage.partition % self._counts[topic], key, message.body, headers)
        return None

    def _write(self, writer: TransactionalWriter, chunk: _Messages, stop: Event) -> list[BrokerMessage]:
        """Write the dead letters of a chunk, without those that Kafka refuses; return the messages to acknowledge."""
        failures = 0
        while records := [record for _, record in chunk if record is not None]:
            try:
                writer.write(records, {})
            except WriterFencedError as error:
                if error.expired:
                    raise RedriveError(f"the import stops: {error}; import again to go on") from error
                raise RedriveError("another import for this group has begun; import again when it has ended") from None
            except WriteRefusedError as error:
                chunk = self._without_written(self._without_refused(chunk, records, error))
            except WriterChangedError:
                chunk = self._without_written(chunk)
            except WriteAbortedError as error:
                failures += 1
                if failures >= _ATTEMPTS or stop.wait(_PAUSE_S):
                    raise RedriveError(f"the import stops: {error}; import again to go on") from error
                chunk = self._without_written(chunk)
            else:
                self.result.topics.update(record.topic for record in records)
                break
        return [message for message, _ in chunk]

    def _without_written(self, chunk: _Messages) -> _Messages:
        """Return the chunk without the records that are in their topics: what seems to be aborted may be committed."""
        written = self._look()
        found: _Messages = []
        for message, record in chunk:
            if record is not None and message.identity in written:
                self.result.topics[record.topic] += 1
                found.append((message, None))
            else:
                found.append((message, record))
        return found

    def _without_refused(self, chunk: _Messages, records: list[ProducerRecord], error: WriteRefusedError) -> _Messages:
        """Return the chunk without the messages whose dead letters Kafka refuses. They are left in the queue.

        Raises:
            RedriveError: the cause is none of a letter.
        """
        written = [message for message, record in chunk if record is not None]
        refused: set[str] = set()
        for each in error.refused:
            if each.cause.outside:
                raise RedriveError(f"a letter stays in the queue: {refusal(each, records)}") from error
            why = self._whys.setdefault(
                records[each.index].topic, f"{refusal(each, records)}; raise that limit, and import again"
            )
            refused.add(written[each.index].identity)
            self._refused[written[each.index].identity] = why
            self.result.refused[why] += 1
        return [pair for pair in chunk if pair[0].identity not in refused]

    def _look(self) -> set[str]:
        """Read what was added to the topics, up to ends that include open transactions, and thus wait for these.

        Returns:
            the identities of the messages whose dead letters were added.
        """
        added: set[str] = set()
        ends = self._offsets.high_watermarks(self._partitions)
        for message in read_between(self._settings.kafka, self._settings.group, self._read, ends):
            with suppress(UnreadableHeadersError):
                value = dict(headers_of(message)).get(IMPORTED_FROM)
                if value is not None:
                    added.add(value.decode(errors="replace"))
        self._present |= added
        self._read = ends
        return added


def letter_targets(settings: Settings, counts: Mapping[str, int]) -> dict[str, tuple[str, str]]:
    """Return the dead-letter topics of each source that has one: for messages that failed, and that expired."""
    naming, found = settings.naming(), {}
    for source, entry in settings.entries().items():
        topics = [naming.dead_letter_topic(each, source) for each in entry.dead_letter_strategy.templates]
        if topics and topics[0] in counts:
            found[source] = (topics[0], topics[-1] if topics[-1] in counts else topics[0])
    return found
