"""Previews and creates the jobs that send dead letters again."""

from __future__ import annotations

import getpass
import secrets
import socket
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import refuse_options, targets_of
from kafka_redelivery.dead_letters.index.files import Manifest
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.index.selecting import Condition, unexpired
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.letter_places import refuse_created_again
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.dead_letters.standing import FREE
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.redrive.job import Edited, Job, JobOptions, JobSpec, SliceId, checksum, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import (
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
    WriterFencedError,
    grant,
)
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

    selection: Selection
    options: JobOptions
    ends: Mapping[Partition, int] | None
    """Letters below these are meant; ``None`` = all that the index has."""

    now_ms: int
    """When it was made: letters that expire later are in it."""

    snapshot: Manifest | None = None
    """What the index was asked: a job has these letters, or is not made."""

    total: int = 0
    """Number of listed letters."""

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


def preview(
    settings: LetterSource,
    index: Index,
    selection: Selection,
    options: JobOptions,
    topics: Collection[str],
    now_ms: int,
    ends: Mapping[Partition, int] | None = None,
) -> Preview:
    """Return what a job with this selection would send. Writes nothing.

    Of headers that another program has damaged the index knows the id of the source record and the number of
    deliveries; the job may refuse some more letters.

    Args:
        settings: how targets are named.
        index: that of the group whose letters are meant, up to date.
        selection: which letters are meant.
        options: those of the job.
        topics: the topics that the cluster shows.
        now_ms: the present (epoch ms).
        ends: letters below these are meant; without it, all that the index has.

    Raises:
        RedriveError: a target is refused or does not exist.
        IndexUnusableError: the index cannot tell.
    """
    refuse_options(settings, options)
    found, targets = Preview(selection, options, ends, now_ms), targets_of(settings, options)
    fate, wanted = _fate(found), _meant(index, found)
    damaged = "false" if isinstance(settings, OtherSystem) else "attempts IS NULL"
    kinds = index.rows(
        f"""
        SELECT {fate.sql} AS fate, CASE WHEN fate = 'in_job' THEN job END, sends + redrives,
               CASE WHEN {damaged} THEN NULL ELSE source_topic END, reason, no_content, count(*)
        FROM letters WHERE {wanted.sql} GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        fate.parameters + wanted.parameters,
    )
    for fate_of, job, sends, origin, reason, no_content, number in kinds:
        match fate_of:
            case "expired":
                found.expired += number
            case "in_job":
                found.in_jobs[job or ""] += number
            case "sent_before":
                found.sent_before += number
            case _:
                target = targets.of_origin(origin)
                # If an origin is damaged, a topic for it is not expected.
                is_damaged = reason == Reason.BAD_HEADERS and target not in {*topics, options.to, options.ready}
                _count(found, None if is_damaged else target, sends, number, no_content=no_content)
    found.snapshot = index.snapshot
    needed = {*found.targets, *([targets.parking] if found.parking else [])}
    missing = ", ".join(sorted(topic for topic in needed if topic not in topics))
    if missing:
        raise RedriveError(
            f"there is no topic {missing} to send to, or it may not be described; {targets.fix}, or leave its letters "
            f"out with --origin{grant(f'Write on topic {missing}')}"
        )
    return found


def _count(found: Preview, target: str | None, sends: int, number: int, *, no_content: bool) -> None:
    """Count letters that are alike and that the job lists; without a target they will be refused."""
    options = found.options
    found.total += number
    found.redriven_before += number if sends else 0
    if options.discard:  # they are sent nowhere
        return
    if target is None:
        found.refused += number
    elif sends >= options.max_redrives:
        found.parking += number
    elif no_content and not options.allow_empty:
        found.no_content += number
    else:
        found.targets[target] += number


def _meant(index: Index, chosen: Preview) -> Condition:
    found = index.ours & index.condition(chosen.selection)
    ends = chosen.ends
    if ends is None or all(end <= ends.get(partition, 0) for partition, end in index.ends.items()):
        return found  # the index has no others
    names, below = [f"{each.topic}-{each.number}" for each in ends], list(ends.values())
    bound = "coalesce(map(?::VARCHAR[], ?::BIGINT[])[topic || '-' || partition], 0)"
    return found & Condition(f'"offset" < {bound}', (names, below))


def _fate(chosen: Preview) -> Condition:
    """Return the SQL that says what a job does with a letter that is meant: ``listed``, or why it leaves it out."""
    states = ", ".join(f"'{each}'" for each in sorted(FREE))
    free = "true" if chosen.options.again else f"state IN ({states}) AND sends = 0"
    alive = unexpired(chosen.now_ms)
    return Condition(
        f"""
        CASE WHEN NOT ({alive.sql}) THEN 'expired' WHEN state = 'in_job' THEN 'in_job'
             WHEN {free} THEN 'listed' ELSE 'sent_before' END
        """,
        alive.parameters,
    )


def _listed(index: Index, chosen: Preview) -> dict[SliceId, OffsetSet]:
    """Return the letters that a preview has counted.

    Raises:
        RedriveError: the index has changed, or is damaged.
    """
    wanted, fate = _meant(index, chosen), _fate(chosen)
    rows = index.rows(
        f"""
        SELECT topic, partition, list("offset" ORDER BY "offset")
        FROM letters WHERE ({wanted.sql}) AND {fate.sql} = 'listed' GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        wanted.parameters + fate.parameters,
    )
    found = {SliceId(topic, partition): OffsetSet(array("q", offsets)) for topic, partition, offsets in rows}
    if chosen.snapshot is not None:
        index.refuse_changes(chosen.snapshot)
    return found


def create(
    settings: LetterSource,
    ledger: Ledger,
    index: Index,
    chosen: Preview,
    clock: Clock = wall_clock_ms,
    edit: Edit | None = None,
    by: str | None = None,
) -> Job:
    """Write a job with its letters in one transaction, and return it with the letters that belong to it.

    Those that other jobs have claimed since the index was brought up to date belong to them.

    Args:
        settings: how to reach Kafka, and the names of topics.
        ledger: reads the job again.
        index: the one of the preview, settled, and open since.
        chosen: what is sent.
        clock: tells the time.
        edit: the value that it sends instead of that of its one letter.
        by: its author, if that is not the user of this process.

    Raises:
        RedriveError: Kafka does not take it, or a topic was deleted and created again since the letters were read.
        TransportError: Kafka does not answer or denies access.
    """
    job, letters, options = secrets.token_hex(5), _listed(index, chosen), chosen.options
    topics = index.topics.only(each.topic for each in letters)
    if topics.ids:
        refuse_created_again(topics, ledger.present(topics.ids), "set aside" if options.discard else "sent")
    spec = JobSpec(
        job=job,
        at_ms=clock(),
        by=by or author(),
        seen=index.seen,
        options=options,
        selection=chosen.selection.document(),
        slices=tuple(sorted(letters)),
        edited=None if edit is None else edit.summary(),
        topics=topics,
    )
    append_jobs(settings, ledger, job, list(job_records(spec, letters, None if edit is None else edit.value)))
    return ledger.jobs.jobs[job]


def append_jobs(settings: LetterSource, ledger: Ledger, job: str, records: list[StoredRecord]) -> None:
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


def open_dlq_writer(settings: LetterSource, group: str, name: str) -> TransactionalWriter:
    """Open a transactional writer of a group; one with the same name is fenced, and its transaction ended.

    Raises:
        TransportError: Kafka does not answer or denies it.
    """
    return TransactionalWriter(producer_config(settings.kafka, transactional_id=f"{group}.dlq.{name}"), None)


def refusal(refused: RefusedRecord, records: Sequence[ProducerRecord]) -> str:
    """Return which topic cannot be written, why, and what to do about a cause outside the record.

    Args:
        refused: a record that Kafka refuses.
        records: those of the write.
    """
    topic = records[refused.index].topic
    fix = ""
    if refused.cause is RefusalCause.FORBIDDEN:
        fix = grant(f"Write on topic {topic}")
    elif refused.cause is RefusalCause.CLOCK:
        fix = "; correct the clock of this machine"
    return f"{topic} cannot be written: {refused.reason}{fix}"


def author() -> str:
    """Return who runs this program, for the list of the jobs."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without that user
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
