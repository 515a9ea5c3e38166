"""The records of ``{group}.dlq.jobs``: which letters are sent again, where to, and which jobs are cancelled.

The topic has one partition and keeps everything. The key is the job; a value is JSON with ``version`` and ``type``.

==========  ================================================================================
type        fields
==========  ================================================================================
``job``     ``atMs``, ``by``, ``seen`` (the end of this topic that its author had read),
            ``options``, ``selection``, ``slices`` (each a ``topic`` and a ``partition``),
            ``edited``: of a job that sends one letter with another value,
            ``topics``: ids of the ``cluster`` and (``ids``) of the topics of the slices
``letters``  ``slice``, ``offsets``: a part of the offsets of a slice, see :class:`OffsetSet`
``edit``    ``part``, ``value`` (base64): a part of the value that the job sends
``cancel``  ``atMs``, ``by``
``note``    ``atMs``, ``by``, ``what``, ``about``, ``job``, ``note``: what a person has done that no other
            record says, for the audit trail; its key is no job; ``topics``: as of a job, of the
            letters that it is about
==========  ================================================================================

A job, its letters and its edited value are written in one transaction. The records of a job with an edited value have
version 2, those of a job with the ids of its topics version 3, those of a job that says how letters of other systems
are recognised version 4, so that a program which does not know these refuses them. Versions that do not know notes
leave them out.

Offsets are those of the topics with these ids. If a topic was deleted and created again, or the cluster is another one,
the job says nothing about the letters that are there now, and sends none of them. Jobs of earlier versions have no ids,
and are about any topic of the name.

**A letter belongs to the first job that lists it.** The author of a job leaves out the letters of all jobs up to
``seen`` that it must not send. The author does not know a job that was written between ``seen`` and its own: what
belongs to that job does not belong to this one. So every reader finds the same owner, from this topic alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple

from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.java.numbers import INT_MAX
from kafka_redelivery.topology.redrive.offset_set import OffsetSet, read_part
from kafka_redelivery.topology.redrive.records import (
    EDITS_VERSION,
    JOB_VERSIONS,
    SYSTEMS_VERSION,
    TOPICS_VERSION,
    StoredRecord,
    fields_of,
    reading,
    stored_record,
)
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.control import whole

CHUNK = 500
"""Letters in one transaction at most."""

CHUNK_BYTES = 8 * 2**20
"""Size of the letters in one transaction, unless one alone is larger."""

MIN_RATE, MAX_RATE = 0.001, 1e9
"""The limits of a rate, in letters in a second."""

MAX_REDRIVES = 3
"""How often a record is sent again, unless a job says it, before it goes to the parking topic."""

_NAME = re.compile("[0-9A-Za-z_-]{1,64}")
"""The name of a job. People copy commands with it into a shell."""

EDIT_PART_BYTES = 2**19
"""Bytes of an edited value in one record; in base64 they fit into a record of 1 MB, the default limit of Kafka."""


def checksum(value: bytes) -> str:
    """Return the SHA-256 of a value in hex digits."""
    return hashlib.sha256(value).hexdigest()


class SliceId(NamedTuple):
    """One partition of a dead-letter topic in a job."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """How a job sends its letters."""

    group: str
    """The consumer group whose dead letters these are."""

    to: str | None = None
    """The target topic; ``None`` = the ready topic of each letter's source."""

    ready: str | None = None
    """The ready topic of another group, if it has an unusual name."""

    discard: bool = False
    """Whether the letters are not sent but set aside."""

    keep_attempts: bool = False
    again: bool = False
    """Whether letters that were sent before are sent, too."""

    max_redrives: int = MAX_REDRIVES
    """A record that was sent again so often goes to the parking topic."""

    rate: float | None = None
    """Letters in a second; ``None`` = unlimited."""

    allow_empty: bool = False
    """Whether letters of another system are sent as they are that have no content, see :attr:`Letter.no_content`."""

    restore_headers: bool = False
    """Whether headers that another system has left out are those of the source record, if that is still there."""

    mapping: Mapping[str, str] | None = None
    """Of letters of another system: the headers that a person has named, by what they have; ``None`` = not known.

    It is not known of our own letters, of those that are set aside, and of jobs before version 4.
    """

    system: str = ""
    """The system of the letters that several claim, as a person says."""

    @property
    def reads_sources(self) -> bool:
        """Whether records are read that letters of another system name."""
        return not self.discard and (self.restore_headers or not self.allow_empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What a job sends instead of the value of its one letter. The value itself is in records of their own."""

    bytes: int
    sha256: str
    original_bytes: int
    original_sha256: str
    """Of the letter's own value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What the author of a job has decided."""

    job: str
    at_ms: int
    by: str
    seen: int
    options: JobOptions
    selection: Mapping[str, Any]
    """The selection as it was given, for people."""

    slices: tuple[SliceId, ...]
    edited: Edited | None = None
    topics: TopicIds = field(default_factory=TopicIds)
    """Of the dead-letter topics, when the letters were chosen."""

    note: str = ""
    """Why, in the words of the author."""

    def is_about(self, topic: str, now: TopicIds) -> bool:
        """Whether the offsets of its slices of a topic are those of the topic that has this name now."""
        return self.topics.holds(topic, now)

    @property
    def kind(self) -> Literal["edit", "discard", "redrive"]:
        """What the job does with its letters."""
        if self.edited is not None:
            return "edit"
        return "discard" if self.options.discard else "redrive"


@dataclass(slots=True)
class Job:
    """A job as the topic has it."""

    spec: JobSpec
    position: int
    """The offset of its first record."""

    letters: list[OffsetSet]
    """The letters it lists, by slice."""

    owned: list[OffsetSet] = field(default_factory=list)
    """Those of them that belong to it, by slice."""

    cancelled_ms: int | None = None
    cancelled_by: str = ""
    problem: str = ""
    """Why a record of it cannot be read; then it is not sent. Empty if all can."""

    edit_offsets: list[int] = field(default_factory=list)
    """Where the topic has the parts of the edited value, in their order. The value is not kept in memory."""

    @property
    def id(self) -> str:
        """The name of the job."""
        return self.spec.job


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a person has done to the group, apart from creating and cancelling jobs."""

    at_ms: int
    by: str
    what: str
    """The command, such as ``pause``."""

    about: str = ""
    """What it was about, for people."""

    job: str = ""
    topics: TopicIds = field(default_factory=TopicIds)
    """Of the letters that it was about."""

    note: str = ""
    """Why, in the words of who did it."""


def job_records(
    spec: JobSpec, letters: Mapping[SliceId, OffsetSet], edited: bytes | None = None
) -> Iterator[StoredRecord]:
    """Yield the records of a new job, which are written in one transaction; ``edited``: the value that it sends."""
    version = 1 if spec.edited is None else EDITS_VERSION
    more: dict[str, object] = {} if spec.edited is None else {"edited": asdict(spec.edited)}
    if spec.topics != TopicIds():
        version, more["topics"] = TOPICS_VERSION, spec.topics.document()
    if spec.options.mapping is not None:
        version = SYSTEMS_VERSION
    if spec.note:
        more["note"] = spec.note
    yield stored_record(
        spec.job,
        "job",
        version=version,
        atMs=spec.at_ms,
        by=spec.by,
        seen=spec.seen,
        options=asdict(spec.options),
        selection=dict(spec.selection),
        slices=[{"topic": each.topic, "partition": each.partition} for each in spec.slices],
        **more,
    )
    for number, each in enumerate(spec.slices):
        for part in letters[each].parts():
            yield stored_record(spec.job, "letters", version=version, slice=number, offsets=part)
    if edited is not None:
        for at in range(0, len(edited) or 1, EDIT_PART_BYTES):
            value = base64.b64encode(edited[at : at + EDIT_PART_BYTES]).decode()
            yield stored_record(spec.job, "edit", version=version, part=at // EDIT_PART_BYTES, value=value)


def cancel_record(job: str, at_ms: int, by: str) -> StoredRecord:
    """Return the record that cancels a job."""
    return stored_record(job, "cancel", atMs=at_ms, by=by)


def note_record(name: str, note: Note) -> StoredRecord:
    """Return the record of a note; ``name`` is a unique key."""
    more: dict[str, Any] = {} if note.topics == TopicIds() else {"topics": note.topics.document()}
    if note.note:
        more["note"] = note.note
    return stored_record(
        f"note-{name}", "note", atMs=note.at_ms, by=note.by, what=note.what, about=note.about, job=note.job, **more
    )


def edited_value(edited: Edited, parts: Iterable[bytes | None]) -> bytes:
    """Return the value of the parts of an edited value, as the topic has them.

    Raises:
        RedriveRecordError: a part cannot be read, or together they are not the value that was edited.
    """
    found = bytearray()
    for part in parts:
        record = fields_of(part) or {}
        with reading(None, record, JOB_VERSIONS):
            found += base64.b64decode(record["value"], validate=True)
    if hashlib.sha256(found).hexdigest() != edited.sha256:
        raise RedriveRecordError("edit", f"{len(found)} bytes are not the {edited.bytes} bytes that were edited")
    return bytes(found)


class JobLog:
    """The jobs, in the order of the log."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.notes: list[Note] = []
        self._offsets: dict[tuple[str, int], array[int]] = {}

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> bool:
        """Add the next record.

        Returns:
            whether it is a record of this project. Others are left out.

        Raises:
            RedriveRecordError: it has another version, or cannot be read. Other records may still be added. Of another
                version counts what this one can read of it: the letters of that job are no other one's.
        """
        record = fields_of(value)
        if record is None:
            return False
        try:
            with reading(key, record, JOB_VERSIONS) as job:
                self._take(offset, job, record)
        except RedriveRecordError as error:
            if record["version"] not in JOB_VERSIONS:
                with suppress(RedriveRecordError), reading(key, record, (record["version"],)) as job:
                    self._take(offset, job, record)
            known = self.jobs.get((key or b"").decode(errors="replace"))
            if known is not None:
                known.problem = error.problem
            raise
        return True

    def _take(self, offset: int, job: str, record: Mapping[str, Any]) -> None:
        match record["type"]:
            case "job" if job not in self.jobs:
                spec = _spec(job, record)
                self.jobs[job] = Job(spec, offset, [OffsetSet() for _ in spec.slices])
            case "letters" if job in self.jobs:
                most = len(self.jobs[job].letters) - 1
                number, offsets = whole(record["slice"], most=most), read_part(record["offsets"])
                self._offsets.setdefault((job, number), array("q")).extend(offsets)
            case "edit" if job in self.jobs:
                self.jobs[job].edit_offsets.append(offset)
            case "cancel" if job in self.jobs and self.jobs[job].cancelled_ms is None:
                self.jobs[job].cancelled_ms = whole(record["atMs"])
                self.jobs[job].cancelled_by = str(record.get("by", ""))
            case "note":
                self.notes.append(_note(record))
            case _:
                pass

    def settle(self) -> None:
        """Find out which letters belong to which job, once all records are added.

        Each job is compared with those alone that its author had not seen, so that the time grows with the number of
        jobs and not with its square.
        """
        for (name, number), offsets in self._offsets.items():
            before = self.jobs[name].letters[number]
            self.jobs[name].letters[number] = OffsetSet([*before, *offsets]) if before else OffsetSet(offsets)
        self._offsets.clear()
        ordered = sorted(self.jobs.values(), key=lambda job: job.position)
        positions = [job.position for job in ordered]
        for index, job in enumerate(ordered):
            unknown = ordered[bisect_left(positions, job.spec.seen) : index]
            job.owned = [
                job.letters[number].without(
                    other.owned[at]
                    for other in unknown
                    for at, its in enumerate(other.spec.slices)
                    if its == own and other.spec.is_about(own.topic, job.spec.topics)
                )
                for number, own in enumerate(job.spec.slices)
            ]


def _spec(job: str, record: Mapping[str, Any]) -> JobSpec:
    if not _NAME.fullmatch(job):
        raise ValueError("its key is no name of a job")
    known = {each.name for each in fields(JobOptions)}
    options = {name: value for name, value in record["options"].items() if name in known}
    _check(options)
    return JobSpec(
        job=job,
        at_ms=whole(record["atMs"]),
        by=str(record["by"]),
        seen=whole(record["seen"]),
        options=JobOptions(**options),
        selection=dict(record["selection"]),
        slices=tuple(SliceId(str(each["topic"]), whole(each["partition"], most=INT_MAX)) for each in record["slices"]),
        edited=_edited(record),
        topics=TopicIds.of(record.get("topics")),
        note=str(record.get("note", "")),
    )


def _note(record: Mapping[str, Any]) -> Note:
    texts = {name: str(record.get(name, "")) for name in ("by", "what", "about", "job", "note")}
    return Note(at_ms=whole(record["atMs"]), topics=TopicIds.of(record.get("topics")), **texts)


def _edited(record: Mapping[str, Any]) -> Edited | None:
    found = record.get("edited")
    if found is None:
        return None
    return Edited(
        bytes=whole(found["bytes"]),
        sha256=str(found["sha256"]),
        original_bytes=whole(found["original_bytes"]),
        original_sha256=str(found["original_sha256"]),
    )


def _check(options: Mapping[str, object]) -> None:
    """Refuse options that `redelivery dlq` cannot have written.

    Raises:
        TypeError, ValueError: an option has another type, or is out of range.
    """
    for name, value in options.items():
        match name, value:
            case ("group" | "system", str()) | ("to" | "ready", str() | None) | ("rate" | "mapping", None):
                pass
            case ("mapping", dict()) if all(isinstance(each, str) for each in value.values()):
                pass
            case ("discard" | "keep_attempts" | "again" | "allow_empty" | "restore_headers", bool()):
                pass
            case ("max_redrives", _):
                whole(value, least=1)
            case ("rate", int() | float()) if MIN_RATE <= value <= MAX_RATE:
                pass
            case _:
                raise TypeError(f"option {name} is {value!r:.50}")
