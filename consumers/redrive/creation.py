"""Previews and creates the jobs that send dead letters again."""

from __future__ import annotations

import getpass
import hashlib
import secrets
import socket
from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.consumers.redrive.ledger import Found, Ledger, Progress, dead_letters
from kafka_redelivery.consumers.redrive.meant import meant
from kafka_redelivery.consumers.redrive.refusal import refusal
from kafka_redelivery.consumers.redrive.rules import AnyTargets, refuse_options, targets_of
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.redrive.job import Edited, Job, JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.letter import Selection
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.redrive.standing import LetterState
from kafka_redelivery.topology.wire.expiry import has_expired
from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError, WriteRefusedError, WriterFencedError, grant
from kafka_redelivery.transport.protocols import ProducerRecord

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


def checksum(value: bytes) -> str:
    """Return the SHA-256 of a value in hex digits."""
    return hashlib.sha256(value).hexdigest()


@dataclass(slots=True)
class Preview:
    """What a job would send."""

    letters: defaultdict[SliceId, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    """The offsets that it would list."""

    targets: Counter[str] = field(default_factory=Counter)
    redriven_before: int = 0
    """Those among the listed that were sent again before."""

    parking: int = 0
    """Those among the listed that go to the parking topic."""

    refused: int = 0
    """Those among the listed that the job will refuse: what they say about their origin is damaged."""

    in_jobs: Counter[str] = field(default_factory=Counter)
    """Letters that are meant but belong to a job that has not sent them yet."""

    sent_before: int = 0
    """Letters that are meant but were sent before."""

    expired: int = 0
    """Letters that are meant but have expired, so that they are hidden."""

    @property
    def total(self) -> int:
        """Number of listed letters."""
        return sum(map(len, self.letters.values()))


def preview(
    settings: Settings,
    ledger: Ledger,
    selection: Selection,
    options: JobOptions,
    progress: Progress,
    clock: Clock = wall_clock_ms,
    base: Path = Path(),
) -> Preview:
    """Read all dead letters and return what a job with this selection would send. Writes nothing.

    ``base`` is the folder of the configuration, for schemas that ``where`` needs.

    Raises:
        RedriveError: a target is refused or does not exist.
        TransportError: Kafka does not answer or denies access.
    """
    refuse_options(settings, options)
    ours = (each for each in dead_letters(settings, ledger, progress) if ledger.has(each.letter))
    letters = meant(ours, selection, settings, base)
    return preview_of(settings, ledger, letters, options, clock())


def preview_of(
    settings: Settings, ledger: Ledger, letters: Iterable[Found], options: JobOptions, now_ms: int
) -> Preview:
    """Return what a job for these letters would send. Writes nothing.

    Raises:
        RedriveError: a target does not exist.
    """
    targets = targets_of(settings, options)
    result = Preview()
    for each in letters:
        _sort_in(result, each, options, targets, now_ms, ledger.partition_counts)
    needed = {*result.targets, *([targets.parking] if result.parking else [])}
    missing = sorted(topic for topic in needed if topic not in ledger.partition_counts)
    if missing:
        right = grant(f"Write on topic {', '.join(missing)}")
        raise RedriveError(
            f"there is no topic {', '.join(missing)} to send to, or it may not be described; {targets.fix}, or leave "
            f"its letters out with --origin{right}"
        )
    return result


def _sort_in(
    result: Preview, each: Found, options: JobOptions, targets: AnyTargets, now_ms: int, topics: Container[str]
) -> None:
    letter, standing = each.letter, each.standing
    if has_expired(letter.expiration_ms, now_ms):
        result.expired += 1
    elif standing.state is LetterState.IN_JOB:
        result.in_jobs[standing.job or ""] += 1
    elif not standing.may_be_sent(again=options.again):
        result.sent_before += 1
    else:
        result.letters[SliceId(letter.topic, letter.partition)].append(letter.offset)
        sends = standing.sends + (letter.mark.number if letter.mark else 0)
        result.redriven_before += sends > 0
        if options.discard:
            return  # it is sent nowhere
        target = targets.of_letter(letter)
        if target is None:
            result.refused += 1
        elif sends >= options.max_redrives:
            result.parking += 1
        elif letter.reason == Reason.BAD_HEADERS and target not in topics and target not in (options.to, options.ready):
            result.refused += 1  # its origin is damaged, so no such topic is expected
        else:
            result.targets[target] += 1


def create(
    settings: Settings,
    ledger: Ledger,
    selection: Selection,
    options: JobOptions,
    chosen: Preview,
    clock: Clock = wall_clock_ms,
    edit: Edit | None = None,
) -> Job:
    """Write a job with its letters in one transaction, and return it with the letters that belong to it.

    ``edit``: the value that it sends instead of that of its one letter.

    Raises:
        RedriveError: Kafka does not take it.
        TransportError: Kafka does not answer or denies access.
    """
    job = secrets.token_hex(5)
    spec = JobSpec(
        job=job,
        at_ms=clock(),
        by=author(),
        seen=ledger.seen,
        options=options,
        selection=selection.document(),
        slices=tuple(sorted(chosen.letters)),
        edited=None if edit is None else edit.summary(),
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
