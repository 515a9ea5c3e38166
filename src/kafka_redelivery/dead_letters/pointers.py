"""Letters of other systems that only name their record: the record is read from ``topic-partition@offset``.

Share groups write such letters by default, and Kafka Streams those of records that were too large to be produced. A
letter has no id of the topic, so a topic that was created again can have another record there. One is accepted only if
it is not later than the letter and, where the letter has a key, has the same one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from kafka_redelivery.dead_letters.foreign.systems import SHARE
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.wire.headers import RedriveMark, read_mark
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import FEW, AssignedReader
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Message, Partition

GROUP: Final = 100
"""So many records are read at once, so that memory stays flat."""

_NEAR: Final = 500
"""Records between two that are wanted are read up to this number; beyond it, the reader jumps."""


class Pointer(NamedTuple):
    """What a letter says about the record that it is about."""

    place: Partition
    offset: int
    died_ms: int
    key: bytes | None


class Source(NamedTuple):
    """The record that a letter names, or why there is none."""

    record: Message | None
    problem: str = ""
    by_time_only: bool = False
    """Whether only its time could be compared, because the letter has no key."""

    waits: bool = False
    """Whether there is none yet, because a transaction is open."""


NO_COPY: Final = frozenset({SHARE.name})
"""Systems that keep no header of the record, and thus not how often it was sent again."""


def pointer_of(letter: Letter) -> Pointer | None:
    """Return where the record of a letter is; ``None`` if its headers do not say it, or nothing of it is needed."""
    if not (letter.no_content or letter.system in NO_COPY):
        return None
    return pointer(letter.source_id, letter.died_ms, letter.key)


def pointer(source_id: str | None, died_ms: int, key: bytes | None) -> Pointer | None:
    """Return what the headers of a letter say about its record; ``None`` if that cannot be a place in Kafka."""
    try:
        topic, number, offset = parse_message_id(source_id or "")
    except ValueError:
        return None
    return Pointer(Partition(topic, number), offset, died_ms, key)


def source_mark(source: Source | None) -> RedriveMark | None:
    """Return the mark that the record of a letter has.

    Raises:
        UnreadableHeadersError: its headers cannot be read.
    """
    return None if source is None or source.record is None else read_mark(headers_of(source.record))


class Sources:
    """Reads the records that letters name. Not thread-safe; connects when the first one is asked for."""

    def __init__(self, settings: OtherSystem, partition_counts: Mapping[str, int]) -> None:
        self._settings, self._counts = settings, partition_counts
        self._offsets = PartitionOffsets(settings.kafka)
        self._ends: dict[Partition, int] = {}
        self._high_watermarks: dict[Partition, int] = {}
        self._reader: AssignedReader | None = None

    def find(self, pointers: Sequence[Pointer | None]) -> list[Source | None]:
        """Return the record of each pointer; of :data:`GROUP` pointers at most, because all are kept in memory.

        For ``None``, a letter without a pointer, it returns ``None``.

        Raises:
            TransportError: Kafka does not answer or denies access.
        """
        wanted: defaultdict[Partition, set[int]] = defaultdict(set)
        for each in pointers:
            if each is not None and each.place.number < self._counts.get(each.place.topic, 0):
                wanted[each.place].add(each.offset)
        found = {(Partition(each.topic(), each.partition()), each.offset()): each for each in self._read(wanted)}
        return [None if each is None else self._judged(each, found.get((each.place, each.offset))) for each in pointers]

    def _judged(self, pointer: Pointer, record: Message | None) -> Source:
        topic = pointer.place.topic
        where = f"{pointer.place}@{pointer.offset}"
        if topic not in self._counts:
            return Source(None, f"there is no topic {topic}, or it may not be described")
        if record is None and pointer.offset >= self._ends.get(pointer.place, pointer.offset + 1):
            if pointer.offset < self._high_watermarks[pointer.place]:
                return Source(None, f"{where} is in or behind a transaction that is still open", waits=True)
            return Source(None, f"{where} is not there: the partition ends before it")
        if record is None:
            return Source(None, f"{where} is not there any more, or was never committed")
        if record.timestamp()[1] > pointer.died_ms:
            problem = "its topic was deleted and created again, or the clock of its producer is ahead"
            return Source(None, f"{where} is later than the letter: {problem}")
        if pointer.key is not None and record.key() != pointer.key:
            return Source(None, f"{where} has another key, so its topic was deleted and created again")
        return Source(record, by_time_only=pointer.key is None)

    def _read(self, wanted: Mapping[Partition, set[int]]) -> Iterator[Message]:
        unknown = [place for place, offsets in wanted.items() if max(offsets) >= self._ends.get(place, 0)]
        self._ends |= self._offsets.last_stable_offsets(unknown)
        beyond = [place for place in unknown if max(wanted[place]) >= self._ends[place]]
        self._high_watermarks |= self._offsets.high_watermarks(beyond)
        left = {place: _runs(offsets, self._ends[place]) for place, offsets in wanted.items()}
        while left := {place: runs for place, runs in left.items() if runs}:
            now = {place: runs.pop(0) for place, runs in left.items()}
            if self._reader is None:
                self._reader = AssignedReader(self._settings.kafka, self._settings.group, FEW)
            self._reader.assign({})  # what is read already would keep its position
            starts, ends = ({place: run[at] for place, run in now.items()} for at in (0, 1))
            for batch in self._reader.batches(starts, ends):
                for message, place, offset in zip(batch.messages, batch.places, batch.offsets, strict=True):
                    if offset in wanted[Partition(*place)]:
                        yield message
            self._reader.assign({})

    def close(self) -> None:
        """Release the client."""
        if self._reader is not None:
            self._reader.close()


def _runs(offsets: Iterable[int], end: int) -> list[tuple[int, int]]:
    """Return the ranges that have all offsets below the end of their partition, and no large gap."""
    runs: list[tuple[int, int]] = []
    for each in sorted(each for each in offsets if each < end):
        if runs and each - runs[-1][1] <= _NEAR:
            runs[-1] = runs[-1][0], each + 1
        else:
            runs.append((each, each + 1))
    return runs


_T = TypeVar("_T")


def grouped(letters: Iterable[_T]) -> Iterator[list[_T]]:
    """Yield groups of :data:`GROUP` letters."""
    left = iter(letters)
    while group := list(islice(left, GROUP)):
        yield group
