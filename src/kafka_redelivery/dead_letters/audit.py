"""The audit trail of a group: who did what, when, and to which letters.

Jobs and their cancellations say it themselves. Whatever else a person does through the console is written as a note
beside them, before it is done, so that nothing is done that is not written. Only `redelivery pause` and `resume` write
it directly afterwards, because an emergency does not wait for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.ledger import job_topics, open_dlq_writer, refusal
from kafka_redelivery.dead_letters.source import LetterSource
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.redrive.job import JobLog, Note, note_record
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.pauses import PauseTarget
from kafka_redelivery.transport.errors import RefusalCause, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a person did."""

    at_ms: int
    by: str
    what: str
    """``redrive``, ``discard``, ``edit``, ``cancel``, or that of a :class:`Note`."""

    about: str = ""
    job: str = ""
    letters: int | None = None
    """Number of letters of a job."""

    selection: Mapping[str, Any] | None = None
    """How the letters of a job were selected."""

    created_again: str = ""
    """Why the letters of that time are not there any more: their topic was deleted and created again since."""

    note: str = ""
    """Why, in the words of who did it."""


def trail(log: JobLog, now: TopicIds | None = None) -> list[Entry]:
    """Return everything that the topic of the jobs says, the newest first; ``now``: the present ids of topics."""
    now = now or TopicIds()
    found = [
        Entry(
            each.at_ms,
            each.by,
            each.what,
            each.about,
            each.job,
            created_again=each.topics.difference(now, "then"),
            note=each.note,
        )
        for each in log.notes
    ]
    for job in log.jobs.values():
        spec = job.spec
        topics = ", ".join(sorted({each.topic for each in spec.slices}))
        letters = sum(map(len, job.owned))
        again = spec.topics.difference(now, "then")
        found.append(Entry(spec.at_ms, spec.by, spec.kind, topics, job.id, letters, spec.selection, again, spec.note))
        if job.cancelled_ms is not None:
            found.append(Entry(job.cancelled_ms, job.cancelled_by, "cancel", topics, job.id, created_again=again))
    return sorted(found, key=lambda each: -each.at_ms)


def note_outage(settings: Settings, by: str, dependency: str, until_ms: int | None, *, opens: bool) -> None:
    """Write that a person is about to open or close the outage of a dependency; raises as :func:`write_note`."""
    about = dependency if until_ms is None else f"{dependency} until {printable_time(until_ms)}"
    write_note(settings, by, "open outage" if opens else "close outage", about)


def note_pause(
    settings: Settings,
    by: str,
    targets: Iterable[PauseTarget],
    until_ms: int | None,
    note: str,
    *,
    pauses: bool,
    done_ms: int | None = None,
) -> None:
    """Write that a person pauses or resumes; without targets everything. More, and errors, as :func:`write_note`."""
    about = ", ".join(map(str, targets)) or "everything"
    about += f" until {printable_time(until_ms)}" if until_ms else ""
    write_note(settings, by, "pause" if pauses else "resume", about, note=note, done_ms=done_ms)


def write_note(
    settings: LetterSource,
    by: str,
    what: str,
    about: str = "",
    job: str = "",
    topics: TopicIds | None = None,
    note: str = "",
    *,
    done_ms: int | None = None,
) -> None:
    """Write what a person is about to do.

    Args:
        settings: how to reach Kafka, and the names of topics.
        by: who does it.
        what: as :class:`Entry`.
        about: to what.
        job: the id of the job that it is about.
        topics: of the letters that it is about.
        note: why.
        done_ms: when it was done (epoch ms), if it was. Otherwise an error says that nothing is done.

    Raises:
        RedriveError: Kafka does not take it.
        TransportError: Kafka does not answer or denies access.
    """
    topic, _ = job_topics(settings, settings.group)
    name = secrets.token_hex(5)
    at_ms = wall_clock_ms() if done_ms is None else done_ms
    entry = Note(at_ms=at_ms, by=by, what=what, about=about, job=job, topics=topics or TopicIds(), note=note)
    key, value = note_record(name, entry)
    records = [ProducerRecord(topic, 0, key, value)]
    undone = "" if done_ms is not None else "nothing is done, because it cannot be written to the audit trail: "
    try:
        with closing(open_dlq_writer(settings, settings.group, f"note-{name}")) as writer:
            writer.write(records, {})
    except WriteAbortedError as error:
        raise RedriveError(f"{undone}{error}") from error
    except WriteRefusedError as error:
        problem = refusal(error.refused[0], records)
        if error.refused[0].cause is RefusalCause.MISSING:
            problem += "; run: redelivery topology apply"
        raise RedriveError(f"{undone}{problem}") from error
