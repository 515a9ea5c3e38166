"""Previews and creates the jobs that send dead letters again."""

from __future__ import annotations

import getpass
import secrets
import socket
from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.checksum import checksum
from kafka_redelivery.dead_letters.created_again import refuse_created_again
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Letter, Selection
from kafka_redelivery.dead_letters.meant import meant
from kafka_redelivery.dead_letters.reading import ReportProgress, StoredLetter, dead_letters
from kafka_redelivery.dead_letters.refusal import refusal
from kafka_redelivery.dead_letters.rules import refuse_options, targets_of
from kafka_redelivery.dead_letters.standing import LetterState, Standing
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.redrive.job import Edited, Job, JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.expiry import has_expired
from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError, WriteRefusedError, WriterFencedError, grant
from kafka_redelivery.transport.protocols import Partition, ProducerRecord

_ATTEMPTS = 3


class Edit(NamedTuple):
    """Another value for a letter."""

    original: bytes
    value: bytes

    def summary(self) -> Edited:
        """Return what the job says about it."""
        return Edited(
            bytes=len(self.value),
            sha256=checksum(self.value),
            original_bytes=len(self.original),
            original_sha256=checksum(self.original),
        )


@dataclass(slots=True)
class Preview:
    """What a job would send."""

    total: int = 0
    """Number of listed letters."""

    letters: defaultdict[SliceId, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    """Their offsets. A preview from the index has none."""

    targets: Counter[str] = field(default_factory=Counter)
    redriven_before: int = 0
    """Those among the listed that were sent again before."""

    parking: int = 0
    """Those among the listed that go to the parking topic."""

    refused: int = 0
    """Those among the listed that the job will refuse: what they say about their origin is damaged."""

    no_content: int = 0
    """Those among the listed that the job will refuse because another system has written them without content."""

    in_jobs: Counter[str] = field(default_factory=Counter)
    """Letters that are meant but belong to a job that has not sent them yet."""

    sent_before: int = 0
    """Letters that are meant but were sent before."""

    expired: int = 0
    """Letters that are meant but have expired, so that they are hidden."""

    topics: TopicIds = field(default_factory=TopicIds)
    """The ids of the dead-letter topics before their letters were read."""


def preview(
    settings: Settings,
    ledger: Ledger,
    selection: Selection,
    options: JobOptions,
    progress: ReportProgress,
    clock: Clock = wall_clock_ms,
    base: Path = Path(),
    ends: Mapping[Partition, int] | None = None,
) -> Preview:
    """Read all dead letters and return what a job with this selection would send. Writes nothing.

    ``base`` is the folder of the configuration, for schemas that ``where`` needs. With ``ends`` only letters below
    these are read.

    Raises:
        RedriveError: a target is refused or does not exist.
        TransportError: Kafka does not answer or denies access.
    """
    refuse_options(settings, options)
    ours = (each for each in dead_letters(settings, ledger, progress, ends) if ledger.has(each.letter))
    letters = meant(ours, selection, settings, base)
    return preview_of(settings, ledger, letters, options, clock())


def preview_of(
    settings: Settings, ledger: Ledger, letters: Iterable[StoredLetter], options: JobOptions, now_ms: int
) -> Preview:
    """Return what a job for these letters would send. Writes nothing.

    Raises:
        RedriveError: a target does not exist.
    """
    sorting = Sorting(settings, options, ledger.partition_counts, now_ms)
    result = sorting.preview
    result.topics = ledger.topics
    for each in letters:
        if sorting.add(each.letter, each.standing):
            result.letters[SliceId(each.letter.topic, each.letter.partition)].append(each.letter.offset)
    sorting.refuse_missing()
    return result


class Sorting:
    """Sorts letters that are meant into those that a job would send and those that it would leave out."""

    def __init__(self, settings: Settings, options: JobOptions, topics: Container[str], now_ms: int) -> None:
        """Prepare.

        Args:
            settings: how targets are named.
            options: those of the job.
            topics: the topics that the cluster shows.
            now_ms: the present (epoch ms).
        """
        self._options, self._topics, self._now_ms = options, topics, now_ms
        self._targets = targets_of(settings, options)
        self.preview = Preview()

    def add(self, letter: Letter, standing: Standing, number: int = 1) -> bool:
        """Count ``number`` letters that are alike; return whether the job would list them."""
        result, options = self.preview, self._options
        if has_expired(letter.expiration_ms, self._now_ms):
            result.expired += number
        elif standing.state is LetterState.IN_JOB:
            result.in_jobs[standing.job or ""] += number
        elif not standing.may_be_sent(again=options.again):
            result.sent_before += number
        else:
            result.total += number
            sends = standing.sends + (letter.mark.number if letter.mark else 0)
            result.redriven_before += number if sends else 0
            if not options.discard:  # else it is sent nowhere
                self._count_target(letter, sends, number)
            return True
        return False

    def _count_target(self, letter: Letter, sends: int, number: int) -> None:
        result, options = self.preview, self._options
        target = self._targets.of_letter(letter)
        if target is None:
            result.refused += number
        elif sends >= options.max_redrives:
            result.parking += number
        elif letter.no_content and not options.allow_empty:
            result.no_content += number
        elif (
            letter.reason == Reason.BAD_HEADERS
            and target not in self._topics
            and target not in (options.to, options.ready)
        ):
            result.refused += number  # its origin is damaged, so no such topic is expected
        else:
            result.targets[target] += number

    def refuse_missing(self) -> None:
        """Refuse a job of which a target does not exist.

        Raises:
            RedriveError: there is one.
        """
        needed = {*self.preview.targets, *([self._targets.parking] if self.preview.parking else [])}
        missing = sorted(topic for topic in needed if topic not in self._topics)
        if not missing:
            return
        right = grant(f"Write on topic {', '.join(missing)}")
        raise RedriveError(
            f"there is no topic {', '.join(missing)} to send to, or it may not be described; {self._targets.fix}, or "
            f"leave its letters out with --origin{right}"
        )


def create(
    settings: Settings,
    ledger: Ledger,
    selection: Selection,
    options: JobOptions,
    chosen: Preview,
    clock: Clock = wall_clock_ms,
    edit: Edit | None = None,
    by: str | None = None,
) -> Job:
    """Write a job with its letters in one transaction, and return it with the letters that belong to it.

    ``edit``: the value that it sends instead of that of its one letter. ``by``: its author, if that is not the user of
    this process.

    Raises:
        RedriveError: Kafka does not take it, or a topic was deleted and created again since the letters were read.
        TransportError: Kafka does not answer or denies access.
    """
    job = secrets.token_hex(5)
    topics = chosen.topics.only(each.topic for each in chosen.letters)
    if topics.ids:
        refuse_created_again(topics, ledger.present(topics.ids), "set aside" if options.discard else "sent")
    spec = JobSpec(
        job=job,
        at_ms=clock(),
        by=by or author(),
        seen=ledger.seen,
        options=options,
        selection=selection.document(),
        slices=tuple(sorted(chosen.letters)),
        edited=None if edit is None else edit.summary(),
        topics=topics,
    )
    letters = {each: OffsetSet(offsets) for each, offsets in chosen.letters.items()}
    append_jobs(settings, ledger, job, list(job_records(spec, letters, None if edit is None else edit.value)))
    return ledger.jobs.jobs[job]


def append_jobs(settings: Settings, ledger: Ledger, job: str, records: list[StoredRecord]) -> None:
    """Write records of one job in one transaction, then read the topic of the jobs again.

    Raises:
        RedriveError: Kafka does not take them.
        TransportError: Kafka does not answer or denies access.
    """
    produced = [ProducerRecord(ledger.jobs_topic, 0, key, value) for key, value in records]
    before, problem = _written(ledger, job), ""
    for _ in range(_ATTEMPTS):
        with closing(open_dlq_writer(settings, ledger.group, job)) as writer:
            try:
                writer.write(produced, {})
            except (WriteAbortedError, WriterFencedError) as error:  # another process may end the same job
                problem = str(error)
            except WriteRefusedError as error:
                raise RedriveError(f"nothing is changed: {refusal(error.refused[0], produced)}") from error
        ledger.refresh()  # an aborted write may have been committed after all
        if _written(ledger, job) != before:
            return
    raise RedriveError(
        f"Kafka does not take the records of job {job}, so nothing is changed: {problem}; run the command again"
    )


def _written(ledger: Ledger, name: str) -> tuple[bool, bool]:
    job = ledger.jobs.jobs.get(name)
    return job is not None, job is not None and job.cancelled_ms is not None


def open_dlq_writer(settings: Settings, group: str, name: str) -> TransactionalWriter:
    """Open a transactional writer of a group; one with the same name is fenced, and its transaction ended.

    Raises:
        TransportError: Kafka does not answer or denies it.
    """
    return TransactionalWriter(producer_config(settings.kafka, transactional_id=f"{group}.dlq.{name}"), None)


def author() -> str:
    """Return who runs this program, for the list of the jobs."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without that user
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
