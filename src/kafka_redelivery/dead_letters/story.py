"""The story of a dead letter: what is stored of its deliveries, its death and its redrives, in the order of time.

Nothing is invented: what no record says any more is not known, and the story says so. What is read is bounded by time
and number: retry records between the time of the source record and the death, the journal in the same time, the actions
of a job from its creation up to the letter's outcome, and a letter's successor from its outcome on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.dead_letters.letter_jobs import InJob, LetterJobs
from kafka_redelivery.dead_letters.reading import StoredLetter, letter_partitions
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.topology.errors import HeaderError, RedriveRecordError
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.actions import ChunkProgress, End, Ended, Outcome, read_action
from kafka_redelivery.topology.redrive.records import fields_of
from kafka_redelivery.topology.wire.headers import (
    FAILURE_CAUSE,
    IMPORTED_FROM,
    SCHEDULED_DELAY,
    HeaderList,
    read_due,
    read_failure_cause,
    read_lineage,
    read_mark,
)
from kafka_redelivery.topology.wire.journal import journalled_outcome
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.clients.message_headers import readable_headers
from kafka_redelivery.transport.errors import ReaderError, TransportError
from kafka_redelivery.transport.protocols import Message, Partition

LIMIT: Final = 20_000
"""How many records of each kind are read at most, apart from actions."""

ACTIONS: Final = 1_000_000
"""How many actions since the creation of a job are read at most."""

_ANSWER_S: Final = 30.0
"""How long to wait for the offsets of a time."""

_STALLED_S: Final = 90.0
"""How long to wait while Kafka sends nothing."""

_SLACK_MS: Final = 60_000
"""How far clocks of processes and brokers may be apart."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    at_ms: int | None
    """Epoch ms; ``None`` = not known when."""

    what: str
    """One of :data:`SEQUENCE`."""

    text: str
    """For people."""

    record: str = ""
    """The id of the record that says it, or is meant."""

    job: str = ""

    near_ms: int = 0
    """Without a time: where the event stands among the others."""


SEQUENCE: Final = (
    "source",
    "before",
    "imported",
    "delivery",
    "ready",
    "journal",
    "unknown",
    "died",
    "job",
    "progress",
    "outcome",
    "after",
)
"""What an event may be, in the order of those of the same time."""


def story(
    settings: LetterSource, jobs: LetterJobs, letter: StoredLetter, *, within_s: float | None = None
) -> list[Event]:
    """Return what is known of a letter. Parts that cannot be read are named as not known.

    Args:
        settings: how to reach Kafka, and the names of topics.
        jobs: what the ledger says of the letter.
        letter: the letter.
        within_s: parts that are not read by then are not known; a request that has begun may take as long once more.
    """
    return sorted(_Story(settings, jobs, letter, within_s).events(), key=_order)


def _order(event: Event) -> tuple[int, int]:
    return event.near_ms if event.at_ms is None else event.at_ms, SEQUENCE.index(event.what)


class _Story:
    def __init__(self, settings: LetterSource, jobs: LetterJobs, letter: StoredLetter, within_s: float | None) -> None:
        self._settings, self._jobs = settings, jobs
        self._letter = letter.letter
        self._headers: HeaderList = list(self._letter.headers.items())
        self._naming = replace(settings.naming(), group=self._letter.group or settings.group)
        self._within_s = within_s
        self._until_s = math.inf if within_s is None else monotonic_s() + within_s
        answer_s = _ANSWER_S if within_s is None else min(_ANSWER_S, within_s)
        self._offsets = PartitionOffsets(settings.kafka, timeout_s=answer_s)

    def events(self) -> Iterator[Event]:
        letter = self._letter
        lineage = self._lineage()
        if lineage is not None:
            yield Event(lineage.timestamp_ms, "source", "written to its source", lineage.message_id)
        yield from self._before()
        if lineage is not None:
            yield from self._on_the_way(lineage)
        times = f" after {letter.deliveries} deliveries" if letter.deliveries not in {"", "0", "1"} else ""
        cause = self._why(letter.reason, letter.exception, letter.message)
        yield Event(letter.died_ms, "died", f"died{times}: {cause}", letter.id)
        for each in self._jobs.jobs:
            try:
                yield from self._in_job(each)
            except TransportError as error:
                text = f"not known: what became of it in job {each.job.id}: {error}"
                near_ms = max(letter.died_ms, each.job.spec.at_ms)
                yield Event(None, "progress", text, job=each.job.id, near_ms=near_ms)

    def _why(self, *texts: str) -> str:
        """Return a cause; with ``failureDetails: class-only`` without the last part, the exception's text."""
        shown = texts[:-1] if self._letter.class_only else texts
        return ": ".join(filter(None, shown)) or "not known why"

    def _lineage(self) -> Lineage | None:
        if isinstance(self._settings, OtherSystem):
            return None
        try:
            return read_lineage(self._headers)
        except HeaderError:
            return None

    def _before(self) -> Iterator[Event]:
        """Yield which letter it was before: before it was sent again, or imported."""
        mark = self._letter.mark
        if mark is not None:
            name, job = self._jobs.predecessor, self._jobs.sent_by
            text = f"was dead letter {name or '(not known any more)'}, sent again for the {_nth(mark.number)} time"
            at_ms = None if job is None else job.spec.at_ms
            yield Event(at_ms, "before", text, name or "", mark.job, self._letter.died_ms)
        imported = self._letter.headers.get(IMPORTED_FROM)
        if imported is not None:
            text = f"was imported; it was {imported.decode(errors='replace')}"
            yield Event(None, "imported", text, near_ms=self._letter.died_ms)

    def _on_the_way(self, lineage: Lineage) -> Iterator[Event]:
        """Yield the deliveries that retry records and the journal still tell of, and say how many are not known."""
        death_ms, known = self._letter.died_ms, set[int]()
        try:
            records = self._retry_records(lineage)
            known = {its.deliveries for _, _, its in records}
            in_tiers = {its.deliveries for message, _, its in records if not self._is_ready(message)}
            for message, headers, its in records:
                yield self._retry(message, headers, its.deliveries, tell=its.deliveries not in in_tiers)
            yield from self._journalled(lineage)
        except TransportError as error:
            text = f"not known: retry records and journal cannot be read: {error}"
            yield Event(None, "unknown", text, near_ms=death_ms)
        failed = lineage.deliveries - 1  # the last one is the death
        missing = failed - len(known & set(range(1, failed + 1)))
        if missing > 0:
            text = f"not known: why {missing} of {failed} deliveries before the last one failed, and when"
            yield Event(None, "unknown", f"{text}; their records are deleted", near_ms=death_ms)

    def _began(self, lineage: Lineage) -> int:
        job = self._jobs.sent_by
        return max(lineage.timestamp_ms, 0 if job is None else job.spec.at_ms)

    def _retry_topics(self, lineage: Lineage) -> list[Partition]:
        naming, counts = self._naming, self._jobs.partition_counts
        tiers = [Partition(topic, number) for topic in naming.tiers_among(counts) for number in range(counts[topic])]
        topics = [naming.mixed_topic(), naming.ready_topic(lineage.address)]
        return tiers + [Partition(topic, lineage.partition % counts[topic]) for topic in topics if topic in counts]

    def _retry_records(self, lineage: Lineage) -> list[tuple[Message, HeaderList, Lineage]]:
        """Return the records in tiers and ready topic that still tell of this letter's deliveries."""
        records = []
        for message in self._between(self._retry_topics(lineage), self._began(lineage), self._letter.died_ms):
            headers = readable_headers(message)
            with suppress(HeaderError):
                its = read_lineage(headers)
                same = (its.message_id, its.redrive) == (lineage.message_id, lineage.redrive)
                if same and its.deliveries > 0:
                    records.append((message, headers, its))
        return records

    def _is_ready(self, message: Message) -> bool:
        """Whether a record has been released, and not put into the ready topic because its delay is 0."""
        is_ready = bool(self._naming.ready_topics_among([message.topic()]))
        return is_ready and SCHEDULED_DELAY not in dict(readable_headers(message))

    def _retry(self, message: Message, headers: HeaderList, deliveries: int, *, tell: bool) -> Event:
        """Return what a retry record says; ``tell``: also why the delivery before its release failed."""
        topic, due_ms, at_ms = message.topic(), read_due(headers), message.timestamp()[1]
        cause = read_failure_cause(dict(headers).get(FAILURE_CAUSE))
        why = self._why(cause.exception, cause.message)
        place = f"{topic}-{message.partition()}@{message.offset()}"
        if not self._is_ready(message):
            return Event(at_ms, "delivery", f"delivery {deliveries} failed: {why}; goes to {topic}", place)
        late = "" if due_ms is None else f", {at_ms - due_ms} ms after its due time"
        before = f"; delivery {deliveries} had failed: {why}" if tell else ""
        return Event(at_ms, "ready", f"ready for delivery {deliveries + 1} in {topic}{late}{before}", place)

    def _journalled(self, lineage: Lineage) -> Iterator[Event]:
        topic = self._naming.journal_topic()
        counts = self._jobs.partition_counts
        if not self._settings.journal or topic not in counts or self._letter.group != self._settings.group:
            return
        partition = Partition(topic, lineage.partition % counts[topic])
        key = f"{lineage.address}-{lineage.partition}".encode()
        for message in self._between([partition], self._began(lineage), self._letter.died_ms + _SLACK_MS):
            outcome = journalled_outcome(message.value(), lineage.offset) if message.key() == key else None
            if outcome is not None:
                place = f"{topic}-{message.partition()}@{message.offset()}"
                yield Event(message.timestamp()[1], "journal", f"journal: {outcome}", place)
            if outcome == "dead_lettered":
                return  # what follows is of the letter's next life

    def _in_job(self, each: InJob) -> Iterator[Event]:
        job = each.job
        size = f", {job.spec.edited.original_bytes} bytes became {job.spec.edited.bytes}" if job.spec.edited else ""
        yield Event(job.spec.at_ms, "job", f"{job.spec.kind} by {job.spec.by}: job {job.id}{size}", job=job.id)
        outcome_ms = None
        for at_ms, what in self._actions(each):
            if isinstance(what, Ended):
                outcome_ms = at_ms
                yield Event(at_ms, "outcome", f"job {job.id}: {what.outcome}", job=job.id)
            else:
                yield Event(at_ms, "progress", f"job {job.id}: {self._dealt_with(what)}", job=job.id)
        if job.cancelled_ms is not None:
            yield Event(job.cancelled_ms, "progress", f"job {job.id} was cancelled", job=job.id)
        if outcome_ms is not None:
            yield from self._after(each, outcome_ms)
        elif each.outcome is not None:
            text = f"job {job.id}: {each.outcome}; not known when"
            yield Event(None, "outcome", text, job=job.id, near_ms=job.spec.at_ms)

    def _dealt_with(self, chunk: ChunkProgress) -> str:
        offset = self._letter.offset
        for name, offsets in (("gone", chunk.gone), ("parked", chunk.parked), ("discarded", chunk.set_aside)):
            if offset in offsets:
                return name
        return f"refused: {chunk.refused[offset]}" if offset in chunk.refused else "sent"

    def _actions(self, each: InJob) -> Iterator[tuple[int, ChunkProgress | Ended]]:
        """Yield the first progress of a job that covers the letter, and its outcome, each with its time (epoch ms).

        What follows them is not read: it may be of a million other letters.
        """
        key, dealt_with = f"{each.job.id}/{each.number}".encode(), False
        if not each.reached and each.outcome is None:
            return
        for message in self._between([each.actions], each.job.spec.at_ms - _SLACK_MS, None, limit=ACTIONS):
            if message.key() != key:
                continue
            with suppress(RedriveRecordError):
                action = read_action(message.key(), message.value())
                at_ms = _number((fields_of(message.value()) or {}).get("atMs"))
                match None if action is None else action.what:
                    case Ended(offset) as ended if offset == self._letter.offset:
                        yield at_ms, ended
                        if dealt_with and ended.outcome == each.outcome:
                            return
                    case ChunkProgress(through=through, end=end) as chunk if not dealt_with:
                        dealt_with = through >= self._letter.offset and end is not End.CANCELLED
                        if dealt_with:
                            yield at_ms, chunk
                            if each.outcome is None:
                                return

    def _after(self, each: InJob, outcome_ms: int) -> Iterator[Event]:
        """Yield the letter that it became when it died again."""
        job, number = each.job, each.number
        if each.outcome is not Outcome.DEAD_AGAIN:
            return
        partitions = letter_partitions(self._settings, self._jobs.partition_counts)
        for message in self._between(partitions, outcome_ms - _SLACK_MS, None):
            mark = read_mark(readable_headers(message))
            if mark is not None and (mark.job, mark.slice, mark.offset) == (job.id, number, self._letter.offset):
                name = f"{message.topic()}-{message.partition()}@{message.offset()}"
                yield Event(message.timestamp()[1], "after", f"died again as {name}", name, job.id)
                return
        text = f"not known: which letter it became in job {job.id}; that letter is deleted"
        yield Event(None, "after", text, job=job.id, near_ms=outcome_ms)

    def _between(
        self, partitions: Iterable[Partition], since_ms: int, until_ms: int | None, limit: int = LIMIT
    ) -> Iterator[Message]:
        """Yield the records of a time, by their timestamps; about ``limit`` at most.

        Raises:
            TransportError: Kafka does not answer, or it takes too long.
        """
        wanted = list(partitions)
        self._left_s()
        starts = self._offsets.offsets_for_time(wanted, max(0, since_ms))
        ends = self._offsets.last_stable_offsets(starts)
        if until_ms is not None:
            ends |= self._offsets.offsets_for_time(starts, until_ms + 1)
        ends = {each: end for each, end in ends.items() if end > starts[each]}
        share = max(1, limit // max(1, len(ends)))
        ends = {each: min(end, starts[each] + share) for each, end in ends.items()}
        stalled_s = min(_STALLED_S, self._left_s())
        for message in read_between(self._settings.kafka, self._settings.group, starts, ends, stalled_s=stalled_s):
            self._left_s()
            yield message

    def _left_s(self) -> float:
        """Return how long it may still take.

        Raises:
            ReaderError: the time is over.
        """
        left_s = self._until_s - monotonic_s()
        if left_s <= 0:
            raise ReaderError(
                f"it takes longer than {self._within_s:g} s; `redelivery dlq show` takes the time it needs"
            )
        return left_s


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
