"""Previews and creates the jobs that send dead letters again."""

from __future__ import annotations

import secrets
from array import array
from collections import Counter
from collections.abc import Callable, Container, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.choosing import unknown_ids
from kafka_redelivery.dead_letters.copies import Copies, ForeignCopies, copies_of, refuse_options
from kafka_redelivery.dead_letters.foreign.systems import is_claimed
from kafka_redelivery.dead_letters.index.files import Manifest
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.index.sql import Condition, quoted, unexpired
from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.ledger import Ledger, author
from kafka_redelivery.dead_letters.letter import FREE, UNKNOWN_OUTCOME, Selection
from kafka_redelivery.dead_letters.pointers import NO_COPY, Source, Sources, grouped, pointer, source_mark
from kafka_redelivery.dead_letters.reading import refuse_created_again
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, noting_systems
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.redrive.job import Edited, Job, JobOptions, JobSpec, SliceId, checksum, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Partition


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

    unrecognised: int = 0
    """Those among the refused whose system is not recognised, so that nothing says where they came from."""

    claimed: Counter[str] = field(default_factory=Counter)
    """Those among the refused that several systems claim, by their names."""

    no_content: int = 0
    """Those among the listed that the job will refuse because another system has written them without content, and does
    not say where their records are."""

    gone: int = 0
    """Those among the listed that the job will refuse because they have no content, and their records are gone."""

    fetched: int = 0
    """Those among the listed that have no content, so that the job reads their records from where they came from."""

    fetched_bytes: int = 0
    """The size of the keys and values of these records."""

    by_time_only: int = 0
    """Those among the fetched of which only the time was compared, because the letter has no key."""

    headers_lost: int = 0
    """Those among the listed that are sent without the headers of their records, which another system has left out."""

    in_jobs: Counter[str] = field(default_factory=Counter)
    """Letters that are meant but belong to a job that has not sent them yet."""

    sent_before: int = 0
    """Letters that are meant but were sent before."""

    expired: int = 0
    """Letters that are meant but have expired, so that they are hidden."""

    duplicates: int = 0
    """Letters that are meant but are duplicates, whose messages were delivered otherwise."""

    skips: tuple[str, ...] = ()
    """Sources whose letters are left out, because there is no topic to send them to."""

    skipped: Counter[str] = field(default_factory=Counter)
    """Letters that are meant but left out for that, by the topic."""

    unknown_ids: tuple[str, ...] = ()
    """See :func:`unknown_ids`."""

    def document(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        rate = self.options.rate
        return {
            "letters": self.total,
            "targets": dict(self.targets),
            "seconds": None if rate is None else round(self.total / rate, 1),
            "redrivenBefore": self.redriven_before,
            "parking": self.parking,
            "refused": self.refused,
            "unrecognised": self.unrecognised,
            "claimed": dict(self.claimed),
            "noContent": self.no_content,
            "gone": self.gone,
            "fetched": self.fetched,
            "fetchedBytes": self.fetched_bytes,
            "byTimeOnly": self.by_time_only,
            "headersLost": self.headers_lost,
            "inJobs": dict(self.in_jobs),
            "sentBefore": self.sent_before,
            "expired": self.expired,
            "duplicates": self.duplicates,
            "skipped": dict(self.skipped),
            "unknownIds": list(self.unknown_ids),
        }


def preview(
    settings: LetterSource,
    index: Index,
    selection: Selection,
    options: JobOptions,
    topics: Mapping[str, int],
    now_ms: int,
    ends: Mapping[Partition, int] | None = None,
    *,
    skip_refused: bool = False,
) -> Preview:
    """Return what a job with this selection would send. Writes nothing.

    Of headers that another program has damaged the index knows the id of the source record and the number of
    deliveries; the job may refuse some more letters.

    Args:
        settings: how targets are named.
        index: that of the group whose letters are meant, up to date.
        selection: which letters are meant.
        options: those of the job.
        topics: the topics that the cluster shows, and their numbers of partitions.
        now_ms: the present (epoch ms).
        ends: letters below these are meant; without it, all that the index has.
        skip_refused: whether letters are left out whose target does not exist.

    Raises:
        RedriveError: a target is refused or does not exist.
        IndexUnusableError: the index cannot tell.
    """
    refuse_options(settings, options)
    options = noting_systems(settings, options)
    found, targets = Preview(selection, options, ends, now_ms), copies_of(settings, options, topics)
    wanted = _meant(index, found)
    found.skips = _without_target(index, wanted, targets, topics) if skip_refused else ()
    fate = _fate(found)
    damaged = "false" if isinstance(settings, OtherSystem) else "attempts IS NULL"
    looks = isinstance(settings, OtherSystem) and options.reads_sources
    points = _POINTS if looks else "false"
    kinds = index.rows(
        f"""
        SELECT {fate.sql} AS fate, job, sends + redrives, {damaged}, source_topic, reason, no_content, system, count(*)
        FROM letters WHERE {wanted.sql} AND NOT ({fate.sql} = 'listed' AND {points}) GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        fate.parameters + wanted.parameters + fate.parameters,
    )
    for fate_of, job, sends, is_damaged, origin, reason, no_content, system, number in kinds:
        match fate_of:
            case "expired":
                found.expired += number
            case "in_job":
                found.in_jobs[job or ""] += number
            case "duplicate":
                found.duplicates += number
            case "sent_before":
                found.sent_before += number
            case "skipped":
                found.skipped[targets.target_of(origin) or origin] += number
            case _:
                target = targets.target_of(None if is_damaged else origin)
                # If an origin is damaged, a topic for it is not expected.
                if reason == Reason.BAD_HEADERS and target not in {*topics, options.to, options.ready}:
                    target = None
                _count(found, target, sends, number, system, no_content=no_content)
    if isinstance(settings, OtherSystem) and looks:
        with closing(Sources(settings, topics)) as sources:
            _look_at_sources(found, index, sources, targets, fate, wanted)
    found.unknown_ids = unknown_ids(index, selection)
    found.snapshot = index.snapshot
    needed = {*found.targets, *([targets.parking] if found.parking else [])}
    missing = ", ".join(sorted(topic for topic in needed if topic not in topics))
    if missing:
        raise RedriveError(
            f"there is no topic {missing} to send to, or it may not be described; {targets.fix}, or leave its letters "
            f"out with --skip-refused or --where{grant(f'Write on topic {missing}')}"
        )
    return found


_POINTS: Final = f"(no_content OR coalesce(system, '') IN ({', '.join(map(quoted, NO_COPY))}))"
"""Letters of whose records something is needed."""


def _without_target(
    index: Index, wanted: Condition, targets: Copies | ForeignCopies, topics: Container[str]
) -> tuple[str, ...]:
    """Return the sources of letters that there is no topic for."""
    sql = f"SELECT DISTINCT source_topic FROM letters WHERE ({wanted.sql}) AND source_topic IS NOT NULL"  # noqa: S608 - conditions are compiled
    origins = [origin for (origin,) in index.rows(sql, wanted.parameters)]
    return tuple(sorted(each for each in origins if (targets.target_of(each) or each) not in topics))


def _look_at_sources(
    found: Preview,
    index: Index,
    sources: Sources,
    targets: Copies | ForeignCopies,
    fate: Condition,
    wanted: Condition,
) -> None:
    """Count listed letters of whose records something is needed, as the job will find these."""
    rows = index.rows(
        f"""
        SELECT sends + redrives, source_topic, source_id, died_ms, key, raw_key, no_content, system
        FROM letters WHERE {wanted.sql} AND {fate.sql} = 'listed' AND {_POINTS}
        """,  # noqa: S608 - conditions are compiled
        wanted.parameters + fate.parameters,
    )
    named = [
        (pointer(source_id, died_ms, raw_key if key is None else key.encode()), sends, origin, no_content, system)
        for sends, origin, source_id, died_ms, key, raw_key, no_content, system in rows
    ]
    named.sort(key=lambda each: (each[0] is not None, each[0] and each[0][:2]))  # near records are read at once
    for group in grouped(named):
        its = sources.find([each for each, *_ in group])
        for source, (_, sends, origin, no_content, system) in zip(its, group, strict=True):
            count_by_source(found, targets.target_of(origin), sends, system, source, no_content=no_content)


def count_by_source(
    found: Preview, target: str | None, sends: int, system: str | None, source: Source | None, *, no_content: bool
) -> None:
    """Count one letter whose record was looked for; without a source its headers do not say where that is."""
    record = None if source is None else source.record
    try:
        mark = source_mark(source)
    except UnreadableHeadersError:  # the job refuses its letter, too
        _count(found, None, sends, 1, system, no_content=no_content)
        return
    times = sends + (mark.number if mark else 0)
    missing = no_content and record is None
    _count(found, target, times, 1, system, no_content=missing, gone=missing and source is not None)
    if no_content and source is not None and record is not None and not found.options.allow_empty:
        found.fetched += 1
        found.fetched_bytes += len(record) + len(record.key() or b"")
        found.by_time_only += source.by_time_only
    elif not no_content and not (found.options.restore_headers and record is not None):
        found.headers_lost += 1


def _count(
    found: Preview,
    target: str | None,
    sends: int,
    number: int,
    system: str | None,
    *,
    no_content: bool,
    gone: bool = False,
) -> None:
    """Count letters that are alike and that the job lists; without a target they will be refused."""
    options = found.options
    found.total += number
    found.redriven_before += number if sends else 0
    if options.discard:  # they are sent nowhere
        return
    if target is None or is_claimed(system or ""):
        found.refused += number
        if is_claimed(system or ""):
            found.claimed[system or ""] += number
        elif system == "":
            found.unrecognised += number
    elif no_content and not options.allow_empty:
        if gone:
            found.gone += number
        else:
            found.no_content += number
    elif sends >= options.max_redrives:
        found.parking += number
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
    alive, chosen_by = unexpired(chosen.now_ms), chosen.selection
    named = chosen_by.reasons or chosen_by.ids or (chosen_by.where and "reason" in chosen_by.where.columns)
    # In a letter of another system the word is its own, and says nothing about another delivery.
    ours = f"system IS NULL AND coalesce(reason, '') = '{Reason.DUPLICATE}'"
    duplicate = "false" if named or chosen.options.discard else ours
    return Condition(
        f"""
        CASE WHEN NOT ({alive.sql}) THEN 'expired' WHEN state = 'in_job' THEN 'in_job'
             WHEN NOT ({free}) THEN 'sent_before' WHEN {duplicate} THEN 'duplicate'
             WHEN list_contains(?::VARCHAR[], source_topic) THEN 'skipped' ELSE 'listed' END
        """,
        (*alive.parameters, list(chosen.skips)),
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
    ledger: Ledger,
    index: Index,
    chosen: Preview,
    edit: Edit | None = None,
    by: str | None = None,
    note: str = "",
) -> Job:
    """Write a job with its letters in one transaction, and return it with the letters that belong to it.

    Those that other jobs have claimed since the index was brought up to date belong to them.

    Args:
        ledger: writes the job, and reads it again.
        index: the one of the preview, settled, and open since.
        chosen: what is sent.
        edit: the value that it sends instead of that of its one letter.
        by: its author, if that is not the user of this process.
        note: why, for the audit trail.

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
        at_ms=wall_clock_ms(),
        by=by or author(),
        seen=index.seen,
        options=options,
        selection=chosen.selection.document(),
        slices=tuple(sorted(letters)),
        edited=None if edit is None else edit.summary(),
        topics=topics,
        note=note,
    )
    ledger.append(job, job_records(spec, letters, None if edit is None else edit.value))
    return ledger.jobs.jobs[job]


class Agreed(NamedTuple):
    """What a person has been shown, and has agreed to."""

    document: Mapping[str, Any]
    """The preview, see :meth:`Preview.document`; empty if there was none."""

    ends: Mapping[Partition, int]
    """The ends of the partitions before it. Letters below these are meant."""

    topics: TopicIds
    """The ids of the dead-letter topics before it. Of another topic nothing is sent."""


def create_job(  # noqa: PLR0913 - the last one is a flag
    settings: LetterSource,
    index: Index,
    selection: Selection,
    options: JobOptions,
    ask: Callable[[Preview], bool],
    agreed: Agreed | None = None,
    by: str | None = None,
    note: str = "",
    *,
    skip_refused: bool = False,
) -> OpenJob | None:
    """Create a job of the letters that are there now.

    Args:
        settings: the configuration.
        index: can select the letters, and is up to date.
        selection: the letters.
        options: how they are sent, or that they are set aside.
        ask: shows what the job would do, and returns whether to create it.
        agreed: what was agreed to before; it is asked only if the job would do something else.
        by: the author, if that is not the user of this process.
        note: why, for the audit trail.
        skip_refused: as :func:`preview`.

    Returns:
        ``None`` if the answer was no.

    Raises:
        RedriveError: a target is refused or does not exist, a topic was created again, or nothing is left to send.
        TransportError: Kafka does not answer or denies access.
    """
    if agreed is not None:
        refuse_created_again(agreed.topics, index.topics, "set aside" if options.discard else "sent")
    topics, ends = ClusterAdmin(settings.kafka).partition_counts(), None if agreed is None else agreed.ends
    chosen = preview(settings, index, selection, options, topics, wall_clock_ms(), ends, skip_refused=skip_refused)
    shown = agreed is not None and agreed.document == chosen.document()
    if not shown and not ask(chosen):
        return None
    if not chosen.total:
        raise RedriveError("no letter is left to send: others have sent or deleted them meanwhile")
    ledger = Ledger(settings, options.group)
    return OpenJob(settings, ledger, create(ledger, index, chosen, by=by, note=note).id)


def discarding(group: str, selection: Selection) -> JobOptions:
    """Return how a job sets letters aside: also those without an outcome, if the selection names their state."""
    return JobOptions(group=group, discard=True, again=not UNKNOWN_OUTCOME.isdisjoint(selection.states))
