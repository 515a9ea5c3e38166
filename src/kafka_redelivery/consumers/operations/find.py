"""`redelivery find`: where a record is, from a bounded number of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kafka_redelivery.consumers.operations.waiting import (
    Positions,
    Ranges,
    Report,
    configured_tiers,
    due_ms,
    headers_or_none,
    hidden_topics,
    last_failure,
    open_since_ms,
    partitions_of,
    read,
    read_unfinished,
    shares,
)
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.lineage import Lineage, parse_message_id
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.wire.headers import ORIG_QUEUE, read_partial_lineage
from kafka_redelivery.topology.wire.journal import last_outcome
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import topic_marks
from kafka_redelivery.transport.protocols import Message, Partition


class State(StrEnum):
    """Where a record is."""

    SOURCE = "source"
    """Not finished in its source: it waits for its first delivery, is in a handler, or waits in place."""

    TIER = "tier"
    READY = "ready"
    """Due, in the ready topic: it waits for its redelivery, or is in a handler."""

    DEAD_LETTER = "dead letter"
    DONE = "done"
    """Acknowledged or discarded, as the journal says."""

    FINISHED = "finished"
    """Finished in its source, and nowhere else. Without a journal it is not known how it ended."""

    UNKNOWN = "unknown"
    """Its offset does not exist, or nothing that was read has its key."""


@dataclass(frozen=True, slots=True)
class Found:
    """One place of one record."""

    message_id: str
    """``topic-partition@offset`` of the source record; empty if it is unknown."""

    state: State
    location: str = ""
    """``topic-partition@offset`` of what was found."""

    deliveries: int | None = None
    """Deliveries that count, made so far; ``None`` = unknown."""

    due_ms: int | None = None
    """When it is due (epoch ms)."""

    cause: str = ""
    """Why the last delivery failed, or what the journal says."""


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search."""

    found: tuple[Found, ...]
    unread: tuple[str, ...]
    """What was not read: more than the limit, and topics that Kafka does not show."""


class _Wanted(NamedTuple):
    """What is searched for: the id of a source record, or a key."""

    text: str
    origin: tuple[Partition, int] | None

    def matches(self, message: Message, lineage: Lineage) -> bool:
        if self.origin is None:
            return message.key() == self.text.encode()
        (topic, number), offset = self.origin
        return (lineage.address, lineage.partition, lineage.offset) == (topic, number, offset)


def find(settings: Settings, text: str, limit: int, report: Report) -> Search:
    """Search for a record; change nothing.

    Args:
        settings: the configuration.
        text: ``topic-partition@offset`` of a record of a configured source, or a key as UTF-8 text.
        limit: how many records to read at most: of the sources, of tiers and ready topics, of dead letters, and of the
            journal.
        report: gets the progress of reading.

    Raises:
        TransportError: Kafka does not answer, or the user lacks a right of the role ``operator``.
    """
    return _Finder(settings, _wanted(settings, text), limit, report).search()


class _Finder:
    """One search."""

    def __init__(self, settings: Settings, wanted: _Wanted, limit: int, report: Report) -> None:
        self._settings, self._wanted, self._limit, self._report = settings, wanted, limit, report
        self._naming = settings.naming()
        self._counts = ClusterAdmin(settings.kafka).partition_counts()
        self._offsets = PartitionOffsets(settings.kafka)
        self._unread: list[str] = []

    def search(self) -> Search:
        """Look in the order in which a record moves, so that one that moves meanwhile is not missed."""
        origin = self._wanted.origin
        found = [*(self._in_sources() if origin is None else self._in_source(*origin))]
        if origin is None or not found:
            found += [*self._waiting(), *self._dead_letters()]
        if origin is not None and not found:
            found = [*self._finished(*origin)]
        return Search(tuple(found or [Found("", State.UNKNOWN)]), tuple(self._unread))

    def _sources(self) -> Positions:
        topics = [source.topic for source in self._settings.sources]
        return self._positions(self._settings.group, topics)

    def _positions(self, group: str | None, topics: Iterable[str]) -> Positions:
        return Positions.of(self._offsets, group, partitions_of(topics, self._counts))

    def _in_sources(self) -> Iterator[Found]:
        """Yield the unfinished source records with the key."""
        positions = self._sources()
        self._note_hidden(source.topic for source in self._settings.sources)
        self._note_limit("unfinished records of the sources", positions.ranges())
        for message in read_unfinished(self._settings, positions, self._limit, self._report):
            if message.key() == self._wanted.text.encode():
                partition = Partition(message.topic(), message.partition())
                yield _unfinished(positions, partition, message.offset())
        hidden = positions.hidden()
        self._note_limit("records of the sources in and behind open transactions", hidden)
        since_ms = open_since_ms(self._settings, hidden)
        for message in read(self._settings, hidden, self._limit, self._report, uncommitted=True):
            if message.key() == self._wanted.text.encode():
                partition = Partition(message.topic(), message.partition())
                yield _hidden(partition, message.offset(), since_ms)

    def _waiting(self) -> Iterator[Found]:
        """Yield where the record waits for a redelivery."""
        naming, group = self._naming, self._settings.group
        tiers = [*naming.tiers_among(self._counts), naming.mixed_topic()]
        ready = [naming.ready_topic(source.topic) for source in self._settings.sources]
        for state, reader, topics in ((State.TIER, scheduler_group(group), tiers), (State.READY, group, ready)):
            positions = self._positions(reader, topics)
            self._note_hidden(configured_tiers(self._settings) if state is State.TIER else topics)
            self._note_limit(f"waiting records ({state})", positions.ranges())
            for message in read_unfinished(self._settings, positions, self._limit, self._report):
                lineage = _lineage(message)
                if self._wanted.matches(message, lineage):
                    at = _location(message)
                    yield Found(
                        lineage.message_id,
                        state,
                        at,
                        lineage.deliveries,
                        due_ms(message),
                        self._cause(message),
                    )

    def _dead_letters(self) -> Iterator[Found]:
        """Yield the dead letters of this group, the newest first to be read if there are more than the limit."""
        topics = sweep_plan(self._settings).topics
        positions = self._positions(None, topics)
        self._note_hidden(topics)
        ranges = {each: (positions.starts[each], end) for each, end in positions.ends.items()}
        for message in read(self._settings, self._newest("dead letters", ranges), self._limit, self._report):
            lineage = _lineage(message)
            group = dict(headers_or_none(message)).get(ORIG_QUEUE)
            if group in {None, self._settings.group.encode()} and self._wanted.matches(message, lineage):
                at = _location(message)
                yield Found(
                    lineage.message_id,
                    State.DEAD_LETTER,
                    at,
                    lineage.deliveries,
                    None,
                    self._cause(message),
                )

    def _cause(self, message: Message) -> str:
        """Return why a record failed the last time; with ``failureDetails: class-only`` the class alone."""
        cause = last_failure(message)
        shown = cause[:-1] if self._settings.failure_details.class_only else cause
        return ": ".join(filter(None, shown))

    def _in_source(self, partition: Partition, offset: int) -> Iterator[Found]:
        """Yield the source record if it is not finished."""
        positions = self._sources()
        if partition in positions.ends and positions.starts[partition] <= offset < positions.ends[partition]:
            progress = positions.progress(partition)
            if offset >= progress.next_offset and progress.track(offset):
                yield _unfinished(positions, partition, offset)
        first, end = positions.hidden().get(partition, (0, 0))
        if first <= offset < end:
            yield _hidden(partition, offset, open_since_ms(self._settings, {partition: (first, end)}))

    def _finished(self, partition: Partition, offset: int) -> Iterator[Found]:
        """Yield what is known of a source record that is nowhere else."""
        positions = self._sources()
        if partition not in positions.ends or offset >= positions.ends[partition]:
            return
        name = f"{partition}@{offset}"
        match self._journalled(partition, offset):
            case None:
                yield Found(name, State.FINISHED)
            case "retried":
                yield Found(name, State.FINISHED, name, cause="retried; it is on its way, so search again")
            case "dead_lettered":
                yield Found(name, State.FINISHED, name, cause="dead_lettered; its dead letter is gone")
            case outcome:
                yield Found(name, State.DONE, name, cause=outcome)

    def _journalled(self, partition: Partition, offset: int) -> str | None:
        """Return the last outcome of a source record in the journal."""
        topic = self._naming.journal_topic()
        if not self._settings.journal:
            return None
        self._note_hidden([topic])
        if topic not in self._counts:
            return None
        positions = self._positions(None, [topic])
        number = partition.number % self._counts[topic]
        mine = {each: (positions.starts[each], end) for each, end in positions.ends.items() if each.number == number}
        key = f"{partition.topic}-{partition.number}".encode()
        entries = read(self._settings, self._newest("the journal", mine), self._limit, self._report)
        mark = topic_marks(self._offsets.calls, [partition.topic]).get(partition.topic, "")
        return last_outcome((each.value() for each in entries if each.key() == key), offset, mark)

    def _newest(self, what: str, ranges: Ranges) -> dict[Partition, tuple[int, int]]:
        """Return the newest records of ranges that have more than the limit together, otherwise all."""
        self._note_limit(what, ranges)
        ends = shares(ranges, self._limit)
        return {each: (end - (ends[each] - start), end) for each, (start, end) in ranges.items()}

    def _note_hidden(self, topics: Iterable[str]) -> None:
        self._unread.extend(hidden_topics(topics, self._counts))

    def _note_limit(self, what: str, ranges: Ranges) -> None:
        number = sum(end - start for start, end in ranges.values())
        if number > self._limit:
            self._unread.append(f"{what}: only {self._limit:,} of about {number:,} were read; raise --limit")


def _wanted(settings: Settings, text: str) -> _Wanted:
    try:
        topic, number, offset = parse_message_id(text)
    except ValueError:
        return _Wanted(text, None)
    if topic not in {source.topic for source in settings.sources}:
        return _Wanted(text, None)
    return _Wanted(text, (Partition(topic, number), offset))


def _unfinished(positions: Positions, partition: Partition, offset: int) -> Found:
    name = f"{partition}@{offset}"
    in_place = positions.progress(partition).waiting.get(offset)
    if in_place is None:
        return Found(name, State.SOURCE, name)
    return Found(name, State.SOURCE, name, in_place.deliveries, in_place.due_ms, "waits in place")


def _hidden(partition: Partition, offset: int, since_ms: Mapping[Partition, int]) -> Found:
    """Return what is known of a source record that no reader of committed records sees yet."""
    name, first_ms = f"{partition}@{offset}", since_ms.get(partition)
    since = "" if first_ms is None else f", whose first record was written at {printable_time(first_ms)}"
    return Found(name, State.SOURCE, name, cause=f"it is in or behind an open transaction{since}")


def _lineage(message: Message) -> Lineage:
    itself = Lineage(message.topic(), message.partition(), message.offset(), message.timestamp()[1])
    return read_partial_lineage(headers_or_none(message), itself)


def _location(message: Message) -> str:
    return f"{message.topic()}-{message.partition()}@{message.offset()}"
