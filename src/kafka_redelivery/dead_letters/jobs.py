"""A job, and its run: sends the letters of each slice in transactions that also say how far it is."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from math import ceil
from threading import Event
from typing import Any, Generic, NamedTuple, Self, TypeVar

from kafka_redelivery.consumers.clock import Clock, monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import copies
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.ledger import Ledger, author, open_dlq_writer, read_edited, refusal
from kafka_redelivery.dead_letters.pointers import Source, Sources, grouped, pointer_of, source_mark
from kafka_redelivery.dead_letters.reading import ReportProgress, letter_in, no_progress
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, with_systems_of
from kafka_redelivery.topology.errors import HeaderError, RedriveRecordError
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.redrive.actions import ChunkProgress, End, Outcome, SliceProgress, progress_record
from kafka_redelivery.topology.redrive.job import CHUNK, CHUNK_BYTES, Job, cancel_record, checksum
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import RedriveMark, read_mark
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of, size_of_headers
from kafka_redelivery.transport.clients.write_thread import WriteThread
from kafka_redelivery.transport.errors import (
    ReaderError,
    WriteAbortedError,
    WriterChangedError,
    WriteRefusedError,
    WriterFencedError,
)
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord

_log = logging.getLogger(__name__)

_ATTEMPTS = 5
"""Failed writes in a row after which a job ends, to be resumed later."""

_PAUSE_S = 1.0
_CATCH_UP_S = 1.0
"""A delay of at most this time is made up for."""


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job, with what the topics say of it. Not thread-safe."""

    settings: LetterSource
    ledger: Ledger
    id: str

    @classmethod
    def named(cls, settings: LetterSource, name: str, group: str | None = None) -> Self:
        """Return the job whose name begins so, of a group, if it is not that of the settings.

        Raises:
            RedriveError: there is none, or more than one.
            TransportError: Kafka does not answer or denies access.
        """
        ledger = Ledger(settings, group)
        return cls(settings, ledger, ledger.job(name).id)

    @property
    def discards(self) -> bool:
        """Whether its letters are not sent but set aside."""
        return self.ledger.job(self.id).spec.options.discard

    def document(self) -> dict[str, Any]:
        """Return how far it is, as plain data for JSON."""
        return job_document(self.ledger, self.ledger.job(self.id))

    def run(self, stop: Event, progress: ReportProgress) -> bool:
        """Run it, or go on with it, or take it over, until its end or ``stop``; return whether it has ended.

        A second process that runs it takes over slice by slice.

        Raises:
            RedriveError: another process has taken the job over, or the job cannot go on now. It can be resumed.
            TransportError: Kafka does not answer or denies access.
        """
        return _Run(self, stop, progress).run()

    def cancel(self, by: str | None = None) -> None:
        """Cancel it at once, also if another process runs it; its unsent letters are then free.

        ``by``: who cancels it, if that is not the user of this process.

        A slice is ended by taking over its transactional id, which aborts the chunk that is being sent.

        Raises:
            RedriveError, TransportError: as :meth:`run`. Cancel it again.
        """
        job = self.ledger.jobs.jobs[self.id]
        ends = (self.ledger.actions.slice(self.id, each).end for each in range(len(job.owned)))
        if job.cancelled_ms is None and None in ends:
            self.ledger.append(self.id, [cancel_record(self.id, wall_clock_ms(), by or author())])
        while not self.run(Event(), no_progress):
            self.ledger.refresh()


class Pace:
    """Holds a rate. It waits before a transaction, never in one, which would block the readers of the ready topic."""

    def __init__(self, rate: float | None, stop: Event) -> None:
        self._rate = rate
        self._stop = stop
        self._due_s: float | None = None

    def wait(self, letters: int) -> bool:
        """Wait until so many letters may be sent; return whether they still should."""
        if self._rate is None:
            return not self._stop.is_set()
        now_s = monotonic_s()
        due_s = now_s if self._due_s is None else max(self._due_s, now_s - _CATCH_UP_S)
        self._due_s = due_s + letters / self._rate
        return not self._stop.wait(max(0.0, self._due_s - now_s))


class _Run:
    def __init__(self, job: OpenJob, stop: Event, progress: ReportProgress) -> None:
        self._settings, self._ledger, self._name = job.settings, job.ledger, job.id
        self._stop = stop
        self._progress = progress
        self._pace = Pace(self._job.spec.options.rate, stop)
        self._under_way: tuple[_Made, ProducerRecord]
        self._refused: dict[int, str] = {}
        """Offsets of the letters of the present slice that Kafka refuses, each with its reason."""

        self._paced = -1
        """Up to which offset the letters of the present slice were waited for. A repeated chunk is not, once more."""

        self._given: tuple[bytes | None, Mapping[int, int]] | None = None
        """The edited value and the earlier sends of the present slice. They do not change while it is sent."""

    @property
    def _job(self) -> Job:
        try:
            return self._ledger.jobs.jobs[self._name]
        except KeyError:
            problem = f"job {self._name} stops: {self._ledger.jobs_topic} was deleted and created again without it"
            raise RedriveError(problem) from None

    @property
    def _own_settings(self) -> LetterSource:
        """Settings that recognise letters as the author of the job did; to cancel it, they need not agree."""
        return with_systems_of(self._settings, self._job.spec)

    def run(self) -> bool:
        """Run all slices to their ends; return whether none is left."""
        left = [number for number in range(len(self._job.owned)) if self._slice(number).end is None]
        with closing(self._writers(left)) as writers:
            for number, writer in writers:
                self._run_slice(number, writer)
                if self._stop.is_set():
                    break
        return all(self._slice(number).end is not None for number in range(len(self._job.owned)))

    def _writers(self, numbers: Sequence[int]) -> Generator[tuple[int, WriteThread]]:
        """Yield slices with their writers. The next is opened while a slice is sent, because that takes a while."""
        with ThreadPoolExecutor(1, "next-writer") as pool:
            ahead: Future[WriteThread] | None = None
            try:
                for number, following in zip_longest(numbers, numbers[1:]):
                    writer = self._opened(number) if ahead is None else ahead.result()
                    ahead = None if following is None else pool.submit(self._opened, following)
                    yield number, writer
            finally:
                if ahead is not None and ahead.exception() is None:
                    ahead.result().close()

    def _opened(self, number: int) -> WriteThread:
        writer = open_dlq_writer(self._settings, self._ledger.group, f"{self._name}.{number}", one_attempt=True)
        return WriteThread(writer)

    def _edited(self) -> bytes | None:
        """Return the value that the job sends instead of that of its letter.

        Raises:
            RedriveError: it cannot be read. Without it nothing is sent.
        """
        if self._job.spec.edited is None:
            return None
        try:
            return read_edited(self._settings, self._ledger.jobs_topic, self._job)
        except RedriveRecordError as error:
            raise RedriveError(
                f"job {self._name} stops and sends nothing, because its edited value cannot be read from "
                f"{self._ledger.jobs_topic}: {error}; end it with: {self._command('cancel')}"
            ) from None

    def _sends(self, number: int) -> Mapping[int, int]:
        """Return how often earlier jobs have sent letters of a slice, by offset; without ``again`` none was."""
        if not self._job.spec.options.again:
            return {}
        with Index.refreshed(self._own_settings, self._ledger.group, letters=False) as index:
            return index.sends(*self._job.spec.slices[number])

    def _command(self, name: str) -> str:
        return self._ledger.command(name, self._name)

    def _slice(self, number: int) -> SliceProgress:
        return self._ledger.actions.slice(self._name, number)

    def _run_slice(self, number: int, writer: WriteThread) -> None:
        failures, self._refused, self._paced, self._given = 0, {}, -1, None
        with ExitStack() as writers:
            writers.callback(writer.close)
            while not self._stop.is_set():
                # The writer has ended the transaction of its predecessor, so all that it has committed is read here;
                # also if it has taken its id back after an error.
                self._ledger.refresh()
                before = self._slice(number).through
                try:
                    self._send_rest(writer, number)
                except (WriteRefusedError, WriterChangedError):
                    continue
                except (WriterFencedError, WriteAbortedError) as error:
                    if isinstance(error, WriterFencedError):
                        known = self._slice(number)
                        self._ledger.refresh()
                        if self._job.cancelled_ms is not None:
                            return
                        if not error.expired or self._slice(number) != known:
                            raise RedriveError(
                                f"job {self._name} is continued elsewhere: another process has taken it over, or this "
                                "one was suspended for longer than a transaction may be open; `redelivery dlq jobs` "
                                "shows how far it is"
                            ) from None
                        writer = self._opened(number)
                        writers.callback(writer.close)
                    failures = 1 if self._slice(number).through > before else failures + 1
                    if failures >= _ATTEMPTS:
                        raise RedriveError(
                            f"job {self._name} stops: {error}; go on with: {self._command('resume')}"
                        ) from error
                    _log.warning("reading again how far the job is: %s", error)
                    self._stop.wait(_PAUSE_S)
                else:
                    return

    def _send_rest(self, writer: WriteThread, number: int) -> None:
        """Send the letters that are left; each chunk is read and made while the one before it is written."""
        job, progress = self._job, self._slice(number)
        if progress.end is not None:
            return
        if job.cancelled_ms is not None:  # also a job of which nothing may be sent
            self._begin(writer, number, _Made([], [], ChunkProgress(through=progress.through, end=End.CANCELLED)))
            self._finish(writer)
            return
        if job.problem:
            raise RedriveError(
                f"job {self._name} stops: a record of it in {self._ledger.jobs_topic} cannot be read ({job.problem}); "
                "go on with the version of kafka-redelivery that wrote it, or end the job with: "
                f"{self._command('cancel')}"
            )
        self._refuse_created_again(self._ledger.topics)
        if not progress.adds_up(job.owned[number]):
            raise RedriveError(
                f"job {self._name} stops: what {self._ledger.actions_partition(number).topic} says of slice {number} "
                "cannot be read or does not fit its letters, so another program or person has written there; see who "
                f"may, then end the job with: {self._command('cancel')}"
            )
        self._given = self._given or (self._edited(), self._sends(number))
        maker = _ChunkMaker(self._settings, self._ledger, job, number, wall_clock_ms, *self._given, self._refused)
        try:
            pending = job.owned[number].after(progress.through)
            for chunk in chunks(pending, self._letters(number, pending), chunk_size(job.spec.options.rate)):
                if job.spec.options.rate is not None:
                    self._finish(writer)  # progress is shown before the wait
                if not self._pace.wait(sum(offset > self._paced for offset, _ in chunk.letters)):
                    return
                self._paced = max(self._paced, chunk.through)
                made = maker.make(chunk)
                # Asked after the letters were read: with the same id as ever, they are those that were chosen.
                self._refuse_created_again()
                self._finish(writer)
                self._begin(writer, number, made)
        finally:
            self._finish(writer)

    def _refuse_created_again(self, now: TopicIds | None = None) -> None:
        """Refuse to go on where the letters of the job are not there any more, but others with their offsets.

        Args:
            now: the present ids; without them Kafka is asked.
        """
        spec = self._job.spec
        if now is None:
            now = self._ledger.present(spec.topics.ids) if spec.topics.ids else spec.topics
        problem = spec.topics.difference(now, f"it was created at {printable_time(spec.at_ms)}")
        if problem:
            nothing = "nothing more" if any(self._slice(each).dealt for each in range(len(spec.slices))) else "nothing"
            raise RedriveError(
                f"job {self._name} stops: {problem}; {nothing} was {'set aside' if spec.options.discard else 'sent'}; "
                f"preview again, and end this job with: {self._command('cancel')}"
            )

    def _letters(self, number: int, offsets: Sequence[int]) -> Iterator[tuple[int, int, _Read]]:
        if not offsets:
            return
        partition = Partition(*self._job.spec.slices[number])
        starts, ends = {partition: offsets[0]}, {partition: offsets[-1] + 1}
        count = self._ledger.partition_counts.get(partition.topic)
        if count is None:  # Kafka also hides what may not be described, so the letters may still be there
            raise RedriveError(
                f"job {self._name} stops: its dead-letter topic {partition.topic} does not exist, or may not be "
                f"described; grant Describe and Read on it, then go on with: {self._command('resume')}; "
                f"if it was deleted: {self._command('cancel')}"
            )
        if partition.number >= count:
            return  # the topic was deleted and created again with fewer partitions
        try:
            messages = read_between(self._settings.kafka, self._settings.group, starts, ends)
            for each in self._with_sources(messages):
                record = None if each.source is None else each.source.record
                parts = [each.message, *([] if record is None else [record])]
                size = sum(len(part) + len(part.key() or b"") for part in parts) + size_of_headers(parts)
                yield each.message.offset(), size, each
        except ReaderError:  # a topic that was created again may end before these offsets
            self._refuse_created_again()
            raise

    def _with_sources(self, messages: Iterator[Message]) -> Iterator[_Read]:
        """Yield letters, those of another system with the records that they name."""
        settings = self._own_settings
        if not isinstance(settings, OtherSystem) or not self._job.spec.options.reads_sources:
            yield from map(_Read, messages)
            return
        with closing(Sources(settings, self._ledger.partition_counts)) as sources:
            for group in grouped(messages):
                pointers = [pointer_of(letter_in(each, settings)) for each in group]
                yield from map(_Read, group, sources.find(pointers))

    def _begin(self, writer: WriteThread, number: int, made: _Made) -> None:
        """Begin the transaction of a chunk: its records, and how far the slice then is."""
        key, value = progress_record(self._name, number, made.progress, wall_clock_ms())
        progress = ProducerRecord(*self._ledger.actions_partition(number), key, value)
        self._under_way = made, progress
        writer.begin([*made.records, progress], {})

    def _finish(self, writer: WriteThread) -> None:
        """Wait for the transaction that is under way, if one is.

        Raises:
            WriteRefusedError: Kafka refuses letters, which are noted, so that the next attempt leaves them out.
            RedriveError: Kafka refuses records for a cause that is none of a letter.
        """
        if not writer.busy:
            return
        made, progress = self._under_way
        try:
            writer.result(None)
        except WriteRefusedError as error:
            self._note_refused(error, made, progress)
            raise
        self._ledger.actions.add(progress.key, progress.value)
        done = sum(self._slice(each).dealt for each in range(len(self._job.owned)))
        self._progress(done, sum(map(len, self._job.owned)))

    def _note_refused(self, error: WriteRefusedError, made: _Made, progress: ProducerRecord) -> None:
        for each in error.refused:
            if each.cause.outside or each.index >= len(made.origins):
                raise RedriveError(
                    f"job {self._name} stops, because {refusal(each, [*made.records, progress])}. When it can, go on "
                    f"with: {self._command('resume')}"
                ) from error
            self._refused[made.origins[each.index]] = each.reason


class _Read(NamedTuple):
    """A letter, and the record that it names, if something of that is needed."""

    message: Message
    source: Source | None = None


class _Made(NamedTuple):
    records: list[ProducerRecord]
    origins: list[int]
    """The offset of the letter of each record."""

    progress: ChunkProgress


class _ChunkMaker:
    def __init__(
        self,
        settings: LetterSource,
        ledger: Ledger,
        job: Job,
        number: int,
        clock: Clock,
        edited: bytes | None,
        sends: Mapping[int, int],
        refused: Mapping[int, str],
    ) -> None:
        self._copies = copies(settings, ledger.group, job.spec, ledger.partition_counts)
        self._sends = sends
        self._refused = refused
        self._discards = job.spec.options.discard
        self._job = job.id
        self._slice = job.spec.slices[number]
        self._number = number
        self._edited, self._edit = edited, job.spec.edited
        self._clock = clock

    def make(self, chunk: Chunk[_Read]) -> _Made:
        """Return the records of a chunk, and what became of its letters that are not sent."""
        end, gone = End.DONE if chunk.last else None, tuple(chunk.gone)
        if self._discards:
            set_aside = tuple(offset for offset, _ in chunk.letters)
            return _Made([], [], ChunkProgress(through=chunk.through, set_aside=set_aside, gone=gone, end=end))
        records: list[ProducerRecord] = []
        origins: list[int] = []
        parked: list[int] = []
        refused: dict[int, str] = {}
        now_ms = self._clock()
        for offset, read in chunk.letters:
            try:
                record, parks = self._record(offset, read, now_ms)
            except (UnreadableHeadersError, HeaderError, RedriveError) as error:
                refused[offset] = str(error)
                continue
            records.append(record)
            origins.append(offset)
            if parks:
                parked.append(offset)
        progress = ChunkProgress(
            through=chunk.through,
            sent=len(records) - len(parked),
            gone=gone,
            parked=tuple(parked),
            refused=refused,
            end=end,
        )
        return _Made(records, origins, progress)

    def _record(self, offset: int, read: _Read, now_ms: int) -> tuple[ProducerRecord, bool]:
        """Return the record that a letter becomes, and whether it goes to the parking topic."""
        if offset in self._refused:
            raise RedriveError(self._refused[offset])
        message, source = read
        headers = headers_of(message)
        self._copies.refuse_others(headers)
        before = read_mark(headers) or source_mark(source)
        times = self._sends.get(offset, 0) + (before.number if before else 0) + 1
        mark = RedriveMark(self._job, self._number, offset, times)
        record, parks = self._copies.record(message, headers, mark, now_ms, source)
        if self._edit is None:
            return record, parks
        if checksum(message.value() or b"") != self._edit.original_sha256:
            raise RedriveError("it is not the letter that was edited: its topic was deleted and created again")
        return record._replace(value=self._edited), parks


_T = TypeVar("_T")

_CHUNKS_PER_SECOND = 4
"""With a rate, a chunk has the letters of a quarter of a second, so that they do not arrive in bursts."""


@dataclass(slots=True)
class Chunk(Generic[_T]):
    """The letters of one transaction."""

    through: int = -1
    """All pending offsets up to this one are in this chunk or in an earlier one; -1 if nothing was pending."""

    letters: list[tuple[int, _T]] = field(default_factory=list)
    """Offset and letter of those that exist."""

    gone: list[int] = field(default_factory=list)
    """Offsets of those that were deleted."""

    last: bool = False


def chunk_size(rate: float | None) -> int:
    """Return the number of letters in a chunk. ``rate``: letters in a second, ``None`` = unlimited."""
    return CHUNK if rate is None else max(1, min(CHUNK, ceil(rate / _CHUNKS_PER_SECOND)))


def chunks(
    pending: Iterable[int], letters: Iterable[tuple[int, int, _T]], size: int, max_bytes: int = CHUNK_BYTES
) -> Iterator[Chunk[_T]]:
    """Yield the chunks of a slice; the last one also if it is empty.

    Args:
        pending: the offsets to send, ascending.
        letters: offset, size in bytes and letter of what the partition has, ascending by offset.
        size: how many offsets a chunk may have.
        max_bytes: size of its letters, unless one alone is larger.
    """
    chunk, chunk_bytes = Chunk[_T](), 0
    existing = iter(letters)
    here = next(existing, None)
    for offset in pending:
        while here is not None and here[0] < offset:
            here = next(existing, None)
        found = here if here is not None and here[0] == offset else None
        letter_bytes = 0 if found is None else found[1]
        full = len(chunk.letters) + len(chunk.gone) >= size or (
            chunk.letters and chunk_bytes + letter_bytes > max_bytes
        )
        if full:
            yield chunk
            chunk, chunk_bytes = Chunk(), 0
        chunk.through = offset
        chunk_bytes += letter_bytes
        if found is None:
            chunk.gone.append(offset)
        else:
            chunk.letters.append((offset, found[2]))
    chunk.last = True
    yield chunk


def job_document(ledger: Ledger, job: Job) -> dict[str, Any]:
    """Return a job as plain data for JSON."""
    slices = [ledger.actions.slice(job.id, number) for number in range(len(job.owned))]
    both = list(zip(slices, job.owned, strict=True))
    outcomes = Counter(outcome for each, owned in both for outcome in each.known(owned).values())
    sent = sum(each.sent for each in slices)
    ends = {each.end for each in slices}
    if None in ends:
        state = "cancelling" if job.cancelled_ms is not None else "unreadable" if job.problem else "unfinished"
    else:
        state = "cancelled" if End.CANCELLED in ends else "done"
    return {
        "job": job.id,
        "kind": job.spec.kind,
        "state": state,
        "createdMs": job.spec.at_ms,
        "by": job.spec.by,
        "note": job.spec.note or None,
        "cancelledMs": job.cancelled_ms,
        "cancelledBy": job.cancelled_by or None,
        "letters": sum(map(len, job.owned)),
        "inOtherJobs": sum(map(len, job.letters)) - sum(map(len, job.owned)),
        "sent": sent,
        **{_camel(outcome): outcomes[outcome] for outcome in Outcome},
        "setAside": sum(len(each.set_aside) for each in slices),
        "unknown": max(0, sent - outcomes.total()),
        "gone": sum(len(each.gone) for each in slices),
        "parked": sum(len(each.parked) for each in slices),
        "refused": sum(len(each.refused) for each in slices),
        "contradictory": sum(each.contradictory(owned) for each, owned in both),
        "refusals": sorted({reason for each in slices for reason in each.refused.values()})[:10],
        "createdAgain": job.spec.topics.difference(ledger.topics, "the job was created") or None,
        "options": {
            "group": job.spec.options.group,
            "to": job.spec.options.to,
            "ready": job.spec.options.ready,
            "rate": job.spec.options.rate,
            "again": job.spec.options.again,
            "keepAttempts": job.spec.options.keep_attempts,
            "maxRedrives": job.spec.options.max_redrives,
            "allowEmpty": job.spec.options.allow_empty,
            "restoreHeaders": job.spec.options.restore_headers,
            "map": job.spec.options.mapping or None,
            "system": job.spec.options.system or None,
        },
        "selection": dict(job.spec.selection),
        "edited": edited_document(job),
    }


def edited_document(job: Job) -> dict[str, Any] | None:
    """Return sizes and checksums of the edited value that a job sends, and of the letter's own; not the values."""
    edited = job.spec.edited
    return None if edited is None else {_camel(name): value for name, value in asdict(edited).items()}


def all_sent(document: Mapping[str, Any]) -> bool:
    """Whether a job has ended, and no letter of it was refused or gone; the letter of an edit was sent by it."""
    edited = document.get("kind") != "edit" or document["letters"] > 0
    failed = any(document[name] for name in ("refused", "gone", "contradictory"))
    return edited and document["state"] == "done" and not failed


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
