"""Finds out which letters of another system have died again: a later dead letter has the mark of their copy.

Other systems report no outcomes, but they copy the headers of a record to its dead letter. Each producer of the topics
that they read can set that header, too. So a mark counts only if the dead letter has the key and the value of the one
that it names: then even a forged mark takes nothing away, because the same content is there as another letter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.redrive.actions import ActionLog, Outcome
from kafka_redelivery.topology.redrive.job import Job, JobLog, SliceId, checksum
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import read_mark
from kafka_redelivery.topology.wire.redrive_mark import RedriveMark
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.protocols import Message, Partition

_Place = tuple[str, int, int]


class _Content(NamedTuple):
    """Checksums of key and value."""

    key: str
    value: str


class SecondDeaths:
    """What the dead letters that were read say about letters that were sent. Not thread-safe."""

    def __init__(self, settings: OtherSystem) -> None:
        self._settings = settings
        self._jobs = 0
        self._topics = TopicIds()
        self._read: Mapping[Partition, int] = {}
        self._contents: dict[_Place, _Content] = {}
        """Of the letters that jobs have."""

        self._marked: list[tuple[RedriveMark, _Place, _Content]] = []

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
            self._jobs, self._topics, self._read, self._contents, self._marked = len(jobs.jobs), topics, {}, {}, []
        owned: defaultdict[SliceId, list[OffsetSet]] = defaultdict(list)
        for job in jobs.jobs.values():
            for each, letters in zip(job.spec.slices, job.owned, strict=True):
                if job.spec.is_about(each.topic, topics):
                    owned[each].append(letters)
        for message in read_between(self._settings.kafka, self._settings.group, self._read, ends):
            self._look_at(message, owned)
        self._read = ends
        for mark, place, content in self._marked:
            found = jobs.jobs.get(mark.job)
            if found is not None and self._is_of(found, mark, place, content):
                yield mark

    def _look_at(self, message: Message, owned: Mapping[SliceId, list[OffsetSet]]) -> None:
        place = message.topic(), message.partition(), message.offset()
        content = _Content(checksum(message.key() or b""), checksum(message.value() or b""))
        if any(place[2] in letters for letters in owned.get(SliceId(*place[:2]), ())):
            self._contents[place] = content
        with suppress(UnreadableHeadersError):
            mark = read_mark(headers_of(message))
            if mark is not None:
                self._marked.append((mark, place, content))

    def _is_of(self, job: Job, mark: RedriveMark, place: _Place, content: _Content) -> bool:
        """Whether a dead letter is what has become of the letter that its mark names."""
        if mark.slice >= len(job.spec.slices):
            return False
        letter = (*job.spec.slices[mark.slice], mark.offset)
        if not job.spec.is_about(letter[0], self._topics):
            return False
        sent = self._contents.get(letter)
        if sent is not None and job.spec.edited is not None:
            sent = sent._replace(value=job.spec.edited.sha256)
        return place != letter and sent == content
