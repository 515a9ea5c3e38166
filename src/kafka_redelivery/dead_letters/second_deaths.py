"""Finds out which letters of another system have died again: a later dead letter has the mark of their copy.

Other systems report no outcomes, but they copy the headers of a record to its dead letter. Each producer of the topics
that they read can set that header, too. So a mark counts only if the dead letter has the key and the value of the one
that it names: then even a forged mark takes nothing away, because the same content is there as another letter.

Share groups copy no headers, but their letters name the record that died, and that has the mark. Of letters without
content the records are compared; a record that is gone cannot be taken away.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from typing import Final, NamedTuple

from kafka_redelivery.dead_letters.pointers import (
    NO_COPY,
    Pointer,
    Source,
    Sources,
    grouped,
    pointer_of,
    source_mark,
)
from kafka_redelivery.dead_letters.reading import letter_in
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.redrive.actions import ActionLog, Outcome
from kafka_redelivery.topology.redrive.job import Job, JobLog, SliceId, checksum
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import RedriveMark
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)

_CLOCKS_MS: Final = 3_600_000
"""How much the clocks of brokers and of who creates jobs may differ."""

_Place = tuple[str, int, int]


class _Content(NamedTuple):
    key: str
    value: str


class _Owned(NamedTuple):
    content: _Content
    group: str
    pointer: Pointer | None
    """Where its record is, if it has no content itself."""


class _Marked(NamedTuple):
    """A letter with a mark, its own or that of its record, and the content of what has the mark."""

    mark: RedriveMark
    place: _Place
    content: _Content
    follower: str = ""
    """If its record has the mark: the share group whose letter it is."""


class SecondDeaths:
    """What the dead letters that were read say about letters that were sent. Not thread-safe."""

    def __init__(self, settings: OtherSystem) -> None:
        self._settings = settings
        self.complete = True
        """Whether all records of letters could be read the last time."""

        self._forget(0, TopicIds())

    def _forget(self, jobs: int, topics: TopicIds) -> None:
        """Begin to read the letters anew."""
        self._jobs, self._topics = jobs, topics
        self._read: Mapping[Partition, int] = {}
        self._letters: dict[_Place, _Owned] = {}
        self._records: dict[_Place, _Content | None] = {}
        """Of those without content, as soon as a mark names them: that of the record; ``None`` if it is gone."""

        self._unfollowed: list[tuple[_Place, Pointer, str]] = []
        """Of letters that may have died again, and have no header that says so. Their records are still to be read."""

        self._marked: list[_Marked] = []

    def note(self, jobs: JobLog, actions: ActionLog, ends: Mapping[Partition, int], topics: TopicIds) -> None:
        """Note which letters have died again as their outcomes; as :meth:`found`."""
        for mark in self.found(jobs, ends, topics):
            actions.slice(mark.job, mark.slice).outcomes[mark.offset] = Outcome.DEAD_AGAIN

    def found(self, jobs: JobLog, ends: Mapping[Partition, int], topics: TopicIds) -> Iterator[RedriveMark]:
        """Read the dead letters up to these ends, and yield the marks of letters that were sent and have died again.

        Letters of a topic that was deleted, and created again with another of the ids ``topics``, are not compared.

        Raises:
            TransportError: Kafka does not answer or denies access.
        """
        # Letters that were read before may belong to a new job, or to a topic that is deleted.
        if self._jobs != len(jobs.jobs) or self._topics != topics:
            self._forget(len(jobs.jobs), topics)
        owned: defaultdict[SliceId, list[OffsetSet]] = defaultdict(list)
        for job in jobs.jobs.values():
            for each, letters in zip(job.spec.slices, job.owned, strict=True):
                if job.spec.is_about(each.topic, topics):
                    owned[each].append(letters)
        since_ms = min((job.spec.at_ms for job in jobs.jobs.values()), default=0) - _CLOCKS_MS
        for message in read_between(self._settings.kafka, self._settings.group, self._read, ends):
            self._look_at(message, owned, since_ms)
        self._read = ends
        self.complete = True
        self._follow()
        named = [each for each in self._marked if self._names_a_letter(jobs.jobs.get(each.mark.job), each)]
        self._read_records({_letter(jobs.jobs[each.mark.job], each.mark) for each in named if each.follower})
        yield from (each.mark for each in named if self._is_what_was_sent(jobs.jobs[each.mark.job], each))

    def _look_at(self, message: Message, owned: Mapping[SliceId, list[OffsetSet]], since_ms: int) -> None:
        place = message.topic(), message.partition(), message.offset()
        letter = letter_in(message, self._settings)
        if any(place[2] in letters for letters in owned.get(SliceId(*place[:2]), ())):
            pointer = pointer_of(letter) if letter.no_content else None
            self._letters[place] = _Owned(_content(message), letter.group, pointer)
        if letter.mark is not None:
            self._marked.append(_Marked(letter.mark, place, _content(message)))
        elif letter.system in NO_COPY and letter.died_ms >= since_ms and (pointer := pointer_of(letter)):
            self._unfollowed.append((place, pointer, letter.group))

    def _follow(self) -> None:
        """Look for marks on the records that letters name."""
        unfollowed, self._unfollowed = self._unfollowed, []
        found = self._sources([pointer for _, pointer, _ in unfollowed])
        for (place, pointer, group), source in zip(unfollowed, found, strict=True):
            if source is None:
                self._unfollowed.append((place, pointer, group))
            elif source.record is not None:
                with suppress(UnreadableHeadersError):
                    mark = source_mark(source)
                    if mark is not None:
                        self._marked.append(_Marked(mark, place, _content(source.record), group))

    def _read_records(self, letters: AbstractSet[_Place]) -> None:
        """Read the records of those letters that have no content, unless they were read before."""
        owned = [(each, self._letters[each].pointer) for each in sorted(letters - self._records.keys())]
        unread = [(letter, pointer) for letter, pointer in owned if pointer is not None]
        found = self._sources([pointer for _, pointer in unread])
        for (letter, _), source in zip(unread, found, strict=True):
            if source is not None:
                self._records[letter] = None if source.record is None else _content(source.record)

    def _sources(self, pointers: Sequence[Pointer]) -> Iterator[Source | None]:
        """Yield the record of each letter; ``None`` if it cannot be read now, so that letters can be listed."""
        read = 0
        try:
            for source in self._readable(pointers):
                self.complete &= not source.waits
                read += 1
                yield None if source.waits else source
        except TransportError as error:
            self.complete = False
            _log.warning("it is not known which letters have died again: %s", error)
        yield from [None] * (len(pointers) - read)

    def _readable(self, pointers: Sequence[Pointer]) -> Iterator[Source]:
        if not pointers:
            return
        counts = ClusterAdmin(self._settings.kafka).partition_counts()
        with closing(Sources(self._settings, counts)) as sources:
            for group in grouped(pointers):
                yield from filter(None, sources.find(group))

    def _names_a_letter(self, job: Job | None, marked: _Marked) -> bool:
        """Whether a mark names another letter that the job has, of the same share group."""
        if job is None or marked.mark.slice >= len(job.spec.slices):
            return False
        letter = _letter(job, marked.mark)
        if not job.spec.is_about(letter[0], self._topics) or letter not in self._letters or letter == marked.place:
            return False
        # Each group that reads the topic gets the copy, and may share the dead-letter topic.
        return marked.follower in {"", self._letters[letter].group}

    def _is_what_was_sent(self, job: Job, marked: _Marked) -> bool:
        """Whether what has the mark has the content of what was sent, which cannot be known if that is gone."""
        letter = _letter(job, marked.mark)
        owned = self._letters[letter]
        sent: _Content | None = owned.content
        if marked.follower and owned.pointer is not None:
            if letter not in self._records:
                return False  # it cannot be read now
            sent = self._records[letter]
        if sent is not None and job.spec.edited is not None:
            sent = sent._replace(value=job.spec.edited.sha256)
        return sent in {None, marked.content}


def _letter(job: Job, mark: RedriveMark) -> _Place:
    return (*job.spec.slices[mark.slice], mark.offset)


def _content(message: Message) -> _Content:
    return _Content(checksum(message.key() or b""), checksum(message.value() or b""))
