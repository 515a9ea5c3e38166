"""The story of a dead letter: what is stored of its deliveries, its death and its redrives, in the order of time.

Nothing is invented: what no record says any more is not known, and the story says so. What is read is bounded by time
and number: retry records between the time of the source record and the death, the journal in the same time, outcomes
from the creation of a job on, and a letter's successor from its outcome on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from kafka_redelivery.consumers.redrive.dead_letters import StoredLetter, stored_letter
from kafka_redelivery.consumers.redrive.ledger import Ledger
from kafka_redelivery.consumers.redrive.letter_places import letter_partitions
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import HeaderError, RedriveRecordError
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.actions import ChunkProgress, End, Ended, read_action
from kafka_redelivery.topology.redrive.job import Job, SliceId
from kafka_redelivery.topology.redrive.letter import Letter
from kafka_redelivery.topology.redrive.records import fields_of
from kafka_redelivery.topology.wire.headers import (
    FAILURE_CAUSE,
    IMPORTED_FROM,
    SCHEDULED_DELAY,
    HeaderList,
    read_due,
    read_failure_cause,
    read_lineage,
)
from kafka_redelivery.topology.wire.journal import journalled_outcome
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Message, Partition

LIMIT: Final = 20_000
"""How many records of each kind are read at most."""

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


def predecessor(ledger: Ledger, letter: Letter) -> str | None:
    """Return the id of the letter that this one was before it was sent again; ``None`` if it is not known."""
    mark = letter.mark
    job = None if mark is None else ledger.jobs.jobs.get(mark.job)
    if mark is None or job is None or mark.slice >= len(job.spec.slices):
        return None
    topic, partition = job.spec.slices[mark.slice]
    return f"{topic}-{partition}@{mark.offset}"


def story(settings: Settings, ledger: Ledger, letter: StoredLetter) -> list[Event]:
    """Return what is known of a letter. Parts that may not be read are named as not known.

    Raises:
        TransportError: Kafka does not answer.
    """
    return sorted(_Story(settings, ledger, letter).events(), key=_order)


def _order(event: Event) -> tuple[int, int]:
    return event.near_ms if event.at_ms is None else event.at_ms, SEQUENCE.index(event.what)


class _Story:
    def __init__(self, settings: Settings, ledger: Ledger, letter: StoredLetter) -> None:
        self._settings, self._ledger = settings, ledger
        self._letter, self._message = letter.letter, letter.message
        self._headers: HeaderList = list(self._letter.headers.items())
        self._naming = replace(settings.naming(), group=self._letter.group or settings.group)
        self._offsets = PartitionOffsets(settings.kafka)

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
        yield Event(letter.timestamp_ms, "died", f"died{times}: {cause}", letter.id)
        for job, number in self._jobs():
            yield from self._in_job(job, number)

    def _why(self, *texts: str) -> str:
        """Return a cause; with ``failureDetails: class-only`` without the last part, the exception's text."""
        shown = texts[:-1] if self._letter.class_only else texts
        return ": ".join(filter(None, shown)) or "not known why"

    def _lineage(self) -> Lineage | None:
        if isinstance(self._settings, ForeignTopic):
            return None
        try:
            return read_lineage(self._headers)
        except HeaderError:
            return None

    def _before(self) -> Iterator[Event]:
        """Yield which letter it was before: before it was sent again, or imported."""
        mark = self._letter.mark
        if mark is not None:
            name, job = predecessor(self._ledger, self._letter), self._ledger.jobs.jobs.get(mark.job)
            text = f"was dead letter {name or '(its job is not known)'}, sent again for the {_nth(mark.number)} time"
            at_ms = None if job is None else job.spec.at_ms
            yield Event(at_ms, "before", text, name or "", mark.job, self._letter.timestamp_ms)
        imported = self._letter.headers.get(IMPORTED_FROM)
        if imported is not None:
            text = f"was imported; it was {imported.decode(errors='replace')}"
            yield Event(None, "imported", text, near_ms=self._letter.timestamp_ms)

    def _on_the_way(self, lineage: Lineage) -> Iterator[Event]:
        """Yield the deliveries that retry records and the journal still tell of, and say how many are not known."""
        death_ms, known = self._letter.timestamp_ms, set[int]()
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
        mark = self._letter.mark
        job = None if mark is None else self._ledger.jobs.jobs.get(mark.job)
        return max(lineage.timestamp_ms, 0 if job is None else job.spec.at_ms)

    def _retry_topics(self, lineage: Lineage) -> list[Partition]:
        naming, counts = self._naming, self._ledger.partition_counts
        tiers = [Partition(topic, number) for topic in naming.tiers_among(counts) for number in range(counts[topic])]
        topics = [naming.mixed_topic(), naming.ready_topic(lineage.address)]
        return tiers + [Partition(topic, lineage.partition % counts[topic]) for topic in topics if topic in counts]

    def _retry_records(self, lineage: Lineage) -> list[tuple[Message, HeaderList, Lineage]]:
        """Return the records in tiers and ready topic that still tell of this letter's deliveries."""
        records = []
        for message in self._between(self._retry_topics(lineage), self._began(lineage), self._letter.timestamp_ms):
            headers = _headers(message)
            with suppress(HeaderError):
                its = read_lineage(headers)
                same = (its.message_id, its.redrive) == (lineage.message_id, lineage.redrive)
                if same and its.deliveries > 0:
                    records.append((message, headers, its))
        return records

    def _is_ready(self, message: Message) -> bool:
        """Whether a record has been released, and not put into the ready topic because its delay is 0."""
        is_ready = bool(self._naming.ready_topics_among([message.topic()]))
        return is_ready and SCHEDULED_DELAY not in dict(_headers(message))

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
        counts = self._ledger.partition_counts
        if not self._settings.journal or topic not in counts or self._letter.group != self._settings.group:
            return
        partition = Partition(topic, lineage.partition % counts[topic])
        key = f"{lineage.address}-{lineage.partition}".encode()
        for message in self._between([partition], self._began(lineage), self._letter.timestamp_ms + _SLACK_MS):
            outcome = journalled_outcome(message.value(), lineage.offset) if message.key() == key else None
            if outcome is not None:
                place = f"{topic}-{message.partition()}@{message.offset()}"
                yield Event(message.timestamp()[1], "journal", f"journal: {outcome}", place)
            if outcome == "dead_lettered":
                return  # what follows is of the letter's next life

    def _jobs(self) -> Iterator[tuple[Job, int]]:
        letter = self._letter
        for job in sorted(self._ledger.jobs.jobs.values(), key=lambda each: each.position):
            with suppress(ValueError):
                number = job.spec.slices.index(SliceId(letter.topic, letter.partition))
                if letter.offset in job.owned[number]:
                    yield job, number

    def _in_job(self, job: Job, number: int) -> Iterator[Event]:
        size = f", {job.spec.edited.original_bytes} bytes became {job.spec.edited.bytes}" if job.spec.edited else ""
        yield Event(job.spec.at_ms, "job", f"{job.spec.kind} by {job.spec.by}: job {job.id}{size}", job=job.id)
        outcome_ms = None
        for at_ms, what in self._actions(job, number):
            if isinstance(what, Ended):
                outcome_ms = at_ms
                yield Event(at_ms, "outcome", f"job {job.id}: {what.outcome}", job=job.id)
            else:
                yield Event(at_ms, "progress", f"job {job.id}: {self._dealt_with(what)}", job=job.id)
        if job.cancelled_ms is not None:
            yield Event(job.cancelled_ms, "progress", f"job {job.id} was cancelled", job=job.id)
        if outcome_ms is not None:
            yield from self._after(job, number, outcome_ms)

    def _dealt_with(self, chunk: ChunkProgress) -> str:
        offset = self._letter.offset
        for name, offsets in (("gone", chunk.gone), ("parked", chunk.parked), ("discarded", chunk.set_aside)):
            if offset in offsets:
                return name
        return f"refused: {chunk.refused[offset]}" if offset in chunk.refused else "sent"

    def _actions(self, job: Job, number: int) -> Iterator[tuple[int, ChunkProgress | Ended]]:
        """Yield the first progress of a job that covers the letter, and its outcome, each with its time (epoch ms)."""
        key, dealt_with = f"{job.id}/{number}".encode(), False
        partition = self._ledger.actions_partition(number)
        for message in self._between([partition], job.spec.at_ms - _SLACK_MS, None, limit=None):
            if message.key() != key:
                continue
            with suppress(RedriveRecordError):
                action = read_action(message.key(), message.value())
                at_ms = _number((fields_of(message.value()) or {}).get("atMs"))
                match None if action is None else action.what:
                    case Ended(offset) as ended if offset == self._letter.offset:
                        yield at_ms, ended
                    case ChunkProgress(through=through, end=end) as chunk if not dealt_with:
                        dealt_with = through >= self._letter.offset and end is not End.CANCELLED
                        if dealt_with:
                            yield at_ms, chunk

    def _after(self, job: Job, number: int, outcome_ms: int) -> Iterator[Event]:
        """Yield the letter that it became when it died again."""
        progress = self._ledger.actions.slice(job.id, number)
        if progress.outcomes.get(self._letter.offset) != "dead_again":
            return
        partitions = letter_partitions(self._settings, self._ledger.partition_counts)
        for message in self._between(partitions, outcome_ms - _SLACK_MS, None):
            mark = stored_letter(message, self._ledger.standings(), self._settings).letter.mark
            if mark is not None and (mark.job, mark.slice, mark.offset) == (job.id, number, self._letter.offset):
                name = f"{message.topic()}-{message.partition()}@{message.offset()}"
                yield Event(message.timestamp()[1], "after", f"died again as {name}", name, job.id)
                return
        text = f"not known: which letter it became in job {job.id}; that letter is deleted"
        yield Event(None, "after", text, job=job.id, near_ms=outcome_ms)

    def _between(
        self, partitions: Iterable[Partition], since_ms: int, until_ms: int | None, limit: int | None = LIMIT
    ) -> Iterator[Message]:
        """Yield the records of a time, by their timestamps; about ``limit`` at most."""
        wanted = list(partitions)
        starts = self._offsets.offsets_for_time(wanted, max(0, since_ms))
        ends = self._offsets.last_stable_offsets(starts)
        if until_ms is not None:
            ends |= self._offsets.offsets_for_time(starts, until_ms + 1)
        ends = {each: end for each, end in ends.items() if end > starts[each]}
        if limit is not None:
            share = max(1, limit // max(1, len(ends)))
            ends = {each: min(end, starts[each] + share) for each, end in ends.items()}
        yield from read_between(self._settings.kafka, self._settings.group, starts, ends)


def _headers(message: Message) -> HeaderList:
    try:
        return headers_of(message)
    except UnreadableHeadersError:
        return []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
