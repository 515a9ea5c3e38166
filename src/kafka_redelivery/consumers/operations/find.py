"""`redelivery find`: where a record is, from a bounded number of records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from kafka_redelivery.consumers.operations.waiting import (
    Positions,
    Ranges,
    Report,
    configured_tiers,
    due_ms,
    hidden_topics,
    known_lineage,
    last_failure,
    led_and_leaderless,
    open_since_ms,
    partitions_of,
    read,
    read_unfinished,
    shares,
)
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.policy.lineage import Lineage, parse_message_id
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.wire.headers import ORIG_QUEUE
from kafka_redelivery.topology.wire.journal import last_outcome
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import no_leader, topic_marks
from kafka_redelivery.transport.clients.message_headers import readable_headers
from kafka_redelivery.transport.protocols import Message, Partition

_ENDED: Final = 100
"""How many finished records are named."""

_READER: Final = 0
"""Stands for this process where delivery notes are read; no process writes it into a note."""


class State(StrEnum):
    """Where a record is."""

    SOURCE = "source"
    """Not finished in its source: it waits for its first delivery, is in a handler, or waits in place."""

    HANDLER = "handler"
    """In a handler, or it was when its worker died: known with ``persistDeliveryCountBeforeDelivery`` alone."""

    TIER = "tier"
    READY = "ready"
    """Due, in the ready topic: it waits for its redelivery, or is in a handler."""

    DEAD_LETTER = "dead letter"
    DONE = "done"
    """Acknowledged or discarded, as the journal says."""

    FINISHED = "finished"
    """Finished in its source, and nowhere else. Without a journal it is not known how it ended."""

    UNKNOWN = "unknown"
    """Its offset does not exist, or nothing that was read has its key or header."""


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

    written_ms: int | None = None
    """The timestamp of a finished source record that was read (epoch ms)."""


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search."""

    found: tuple[Found, ...]
    unread: tuple[str, ...]
    """What was not read: more than the limit, and topics that Kafka does not show."""


class Wanted(NamedTuple):
    """What is searched for: the id of a source record, a key, or a header."""

    text: str
    """The id, the key or the value of the header."""

    header: str = ""
    """The name of the header; empty = a key or an id."""

    origin: tuple[Partition, int] | None = None
    """What an id names."""

    @classmethod
    def of(cls, settings: Settings, text: str, header: str = "") -> Wanted:
        """Read what a person wrote: ``topic-partition@offset`` of a configured source or a key, and ``NAME=VALUE``.

        Raises:
            OptionError: it is neither or both, or the header has no name.
        """
        if header:
            name, separator, value = header.partition("=")
            if not separator or not name:
                raise OptionError("header", f"{header!r} is not NAME=VALUE")
            if text:
                raise OptionError("header", "search for a header, or for a key or an id")
            return cls(value, name)
        if not text:
            raise OptionError("header", "name a key, an id or a header")
        try:
            topic, number, offset = parse_message_id(text)
        except ValueError:
            return cls(text)
        is_source = topic in {source.topic for source in settings.sources}
        return cls(text, origin=(Partition(topic, number), offset) if is_source else None)

    def carried_by(self, message: Message) -> bool:
        """Whether a record has the key or the header."""
        if not self.header:
            return message.key() == self.text.encode()
        return (self.header, self.text.encode()) in readable_headers(message)

    def matches(self, message: Message, lineage: Lineage) -> bool:
        """Whether a retry record or a dead letter is the one."""
        if self.origin is None:
            return self.carried_by(message)
        (topic, number), offset = self.origin
        return (lineage.address, lineage.partition, lineage.offset) == (topic, number, offset)


def find(settings: Settings, wanted: Wanted, limit: int, report: Report, *, dead_letters: bool = True) -> Search:
    """Search for a record; change nothing.

    Args:
        settings: the configuration.
        wanted: what is searched for.
        limit: how many records to read at most: of what is not finished in the sources, of what is, of tiers and ready
            topics, of dead letters, and of the journal.
        report: gets the progress of reading.
        dead_letters: whether their topics are read; not needed by who has an index of them.

    Raises:
        TransportError: Kafka does not answer, or the user lacks a right of the role ``operator``.
    """
    return _Finder(settings, wanted, limit, report).search(dead_letters=dead_letters)


class _Finder:
    def __init__(self, settings: Settings, wanted: Wanted, limit: int, report: Report) -> None:
        self._settings, self._wanted, self._limit, self._report = settings, wanted, limit, report
        self._naming = settings.naming()
        self._listed = ClusterAdmin(settings.kafka).led_topics(self._topics)
        self._counts = self._listed.partition_counts
        self._leaderless: set[Partition] = set()
        """The partitions that were not read, because they have no leader."""

        self._offsets = PartitionOffsets(settings.kafka)
        self._unread: list[str] = []
        self._ended: dict[tuple[Partition, int], int] = {}
        """Source records that match and are finished, with their timestamps."""

    def search(self, *, dead_letters: bool) -> Search:
        """Look in the order in which a record moves, so that one that moves meanwhile is not missed."""
        origin = self._wanted.origin
        found = [*(self._in_sources() if origin is None else self._in_source(*origin))]
        if origin is None or not found:
            found += [*self._waiting(), *(self._dead_letters() if dead_letters else ())]
        if origin is None:
            self._scan_finished()
            elsewhere = {each.message_id for each in found}
            found += self._finished({at: ms for at, ms in self._ended.items() if _name(at) not in elsewhere})
            if not found:
                self._note_taken_as_key()
        elif not found and self._exists(*origin):
            found = self._finished({origin: None})
        if origin is not None:  # it is in no other partition of the sources
            others = partitions_of((source.topic for source in self._settings.sources), self._counts)
            self._leaderless -= {*others} - {origin[0]}
        if self._leaderless:
            found = [each for each in found if each.state is not State.FINISHED]  # it may be in one of them
            self._unread.append(no_leader(self._leaderless, "the record may be there"))
        return Search(tuple(found or [Found("", State.UNKNOWN)]), tuple(self._unread))

    def _topics(self, counts: Mapping[str, int]) -> list[str]:
        """Return the topics in which a record may be."""
        naming, sources = self._naming, [source.topic for source in self._settings.sources]
        waiting = [*naming.tiers_among(counts), naming.mixed_topic(), *map(naming.ready_topic, sources)]
        return [*sources, *waiting, *sweep_plan(self._settings).topics, naming.journal_topic()]

    def _note_taken_as_key(self) -> None:
        """Say that an id was searched for as a key, because its topic is a dead-letter topic, or mistyped."""
        with suppress(ValueError):
            topic = parse_message_id(self._wanted.text)[0]
            self._unread.append(
                f"{topic} is no source of the configuration, so this was searched for as a key; "
                "`redelivery dlq show` takes the id of a dead letter"
            )

    def _sources(self) -> Positions:
        topics = [source.topic for source in self._settings.sources]
        return self._positions(self._settings.group, topics)

    def _positions(self, group: str | None, topics: Iterable[str]) -> Positions:
        led, leaderless = led_and_leaderless(topics, self._listed)
        self._leaderless |= leaderless
        return Positions.of(self._offsets, group, led)

    def _in_sources(self) -> Iterator[Found]:
        """Yield the unfinished source records that match, and note those that are finished."""
        positions = self._sources()
        self._note_hidden(source.topic for source in self._settings.sources)
        ranges = positions.ranges()
        self._note_limit("unfinished records of the sources", ranges)
        progress = {each: positions.progress(each, _READER) for each in ranges}
        for message in read(self._settings, ranges, self._limit, self._report):
            if self._wanted.carried_by(message):
                partition, offset = _place(message)
                if progress[partition].track(offset):
                    yield _unfinished(progress[partition], partition, offset)
                else:
                    self._ended[partition, offset] = message.timestamp()[1]
        hidden = positions.hidden()
        self._note_limit("records of the sources in and behind open transactions", hidden)
        since_ms = open_since_ms(self._settings, hidden)
        for message in read(self._settings, hidden, self._limit, self._report, uncommitted=True):
            if self._wanted.carried_by(message):
                yield _hidden(*_place(message), since_ms)

    def _scan_finished(self) -> None:
        """Note the finished source records that match. No topic has their keys but the source itself."""
        positions = self._sources()
        behind = {each: (start, positions.unfinished(each)[0]) for each, start in positions.starts.items()}
        ranges = {each: bounds for each, bounds in behind.items() if bounds[0] < bounds[1]}
        for message in read(self._settings, self._newest("finished records", ranges), self._limit, self._report):
            if self._wanted.carried_by(message):
                self._ended[_place(message)] = message.timestamp()[1]

    def _waiting(self) -> Iterator[Found]:
        """Yield where the record waits for a redelivery."""
        naming, group = self._naming, self._settings.group
        tiers = [*naming.tiers_among(self._counts), naming.mixed_topic()]
        ready = [naming.ready_topic(source.topic) for source in self._settings.sources]
        for state, reader, topics in ((State.TIER, scheduler_group(group), tiers), (State.READY, group, ready)):
            positions = self._positions(reader, topics)
            self._note_hidden(configured_tiers(self._settings) if state is State.TIER else topics)
            self._note_limit(f"waiting records ({state})", positions.ranges())
            suspects = {each: positions.progress(each, _READER).suspect_end for each in positions.ranges()}
            for message in read_unfinished(self._settings, positions, self._limit, self._report):
                lineage = known_lineage(message)
                if self._wanted.matches(message, lineage):
                    partition, offset = _place(message)
                    yield Found(
                        lineage.message_id,
                        State.HANDLER if offset < suspects[partition] else state,
                        _location(message),
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
            lineage = known_lineage(message)
            group = dict(readable_headers(message)).get(ORIG_QUEUE)
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
        hidden = self._settings.failure_details.class_only
        return ": ".join(filter(None, (cause.reason, cause.exception, "" if hidden else cause.message)))

    def _in_source(self, partition: Partition, offset: int) -> Iterator[Found]:
        """Yield the source record if it is not finished."""
        positions = self._sources()
        if partition in positions.ends and positions.starts[partition] <= offset < positions.ends[partition]:
            progress = positions.progress(partition, _READER)
            if offset >= progress.next_offset and progress.track(offset):
                yield _unfinished(progress, partition, offset)
        first, end = positions.hidden().get(partition, (0, 0))
        if first <= offset < end:
            yield _hidden(partition, offset, open_since_ms(self._settings, {partition: (first, end)}))

    def _exists(self, partition: Partition, offset: int) -> bool:
        return offset < self._sources().ends.get(partition, 0)

    def _finished(self, ended: Mapping[tuple[Partition, int], int | None]) -> list[Found]:
        """Return what is known of source records that are nowhere else, the newest of them."""
        named = sorted(ended.items(), key=lambda each: (each[1] or 0, each[0]))[-_ENDED:]
        if len(named) < len(ended):
            self._unread.append(f"finished records: only the newest {_ENDED} of {len(ended):,} are named")
        outcomes = self._journalled([at for at, _ in named])
        return [_outcome(_name(at), outcomes.get(at), written_ms) for at, written_ms in named]

    def _journalled(self, places: Collection[tuple[Partition, int]]) -> dict[tuple[Partition, int], str | None]:
        """Return the last outcome of source records in the journal."""
        topic = self._naming.journal_topic()
        if not self._settings.journal or not places:
            return {}
        self._note_hidden([topic])
        if topic not in self._counts:
            return {}
        positions = self._positions(None, [topic])
        numbers = {partition.number % self._counts[topic] for partition, _ in places}
        mine = {each: (positions.starts[each], end) for each, end in positions.ends.items() if each.number in numbers}
        entries: dict[bytes, list[bytes | None]] = {str(partition).encode(): [] for partition, _ in places}
        for message in read(self._settings, self._newest("the journal", mine), self._limit, self._report):
            if (key := message.key() or b"") in entries:
                entries[key].append(message.value())
        marks = topic_marks(self._offsets.calls, {partition.topic for partition, _ in places})
        return {
            (partition, offset): last_outcome(entries[str(partition).encode()], offset, marks.get(partition.topic, ""))
            for partition, offset in places
        }

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


def _unfinished(progress: Progress, partition: Partition, offset: int) -> Found:
    name, in_place = f"{partition}@{offset}", progress.waiting.get(offset)
    if offset < progress.suspect_end:
        return Found(name, State.HANDLER, name, None if in_place is None else in_place.deliveries)
    if in_place is None:
        return Found(name, State.SOURCE, name)
    return Found(name, State.SOURCE, name, in_place.deliveries, in_place.due_ms, "waits in place")


def _outcome(name: str, outcome: str | None, written_ms: int | None) -> Found:
    match outcome:
        case None:
            return Found(name, State.FINISHED, written_ms=written_ms)
        case "retried":
            cause = "retried; it is on its way, so search again"
        case "dead_lettered":
            cause = "dead_lettered; its dead letter is gone"
        case _:
            return Found(name, State.DONE, name, cause=outcome, written_ms=written_ms)
    return Found(name, State.FINISHED, name, cause=cause, written_ms=written_ms)


def _hidden(partition: Partition, offset: int, since_ms: Mapping[Partition, int]) -> Found:
    """Return what is known of a source record that no reader of committed records sees yet."""
    name, first_ms = f"{partition}@{offset}", since_ms.get(partition)
    since = "" if first_ms is None else f", whose first record was written at {printable_time(first_ms)}"
    return Found(name, State.SOURCE, name, cause=f"it is in or behind an open transaction{since}")


def _name(place: tuple[Partition, int]) -> str:
    return f"{place[0]}@{place[1]}"


def _place(message: Message) -> tuple[Partition, int]:
    return Partition(message.topic(), message.partition()), message.offset()


def _location(message: Message) -> str:
    return _name(_place(message))
