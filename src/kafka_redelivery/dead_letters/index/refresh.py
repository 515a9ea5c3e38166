"""Brings an index up to date from the topics: only what was added is read, and what was deleted is left out."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import duckdb
from arro3.core import Table

from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.decoding import SchemaLackingError, ValueTexts
from kafka_redelivery.dead_letters.index.facts import action_rows, actions_table
from kafka_redelivery.dead_letters.index.files import Basis, Facts, IndexFolder, Manifest, Slot
from kafka_redelivery.dead_letters.index.rows import SCHEMA, RowMaker, answered, table_of
from kafka_redelivery.dead_letters.index.sql import Undecoded, condition_of, undecoded
from kafka_redelivery.dead_letters.index.store import LIMIT_S, Store, database, run, time_limit
from kafka_redelivery.dead_letters.ledger import LeftOut, job_topics, read_jobs, refuse_missing
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.reading import ReportProgress, letter_partitions
from kafka_redelivery.dead_letters.second_deaths import SecondDeaths
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, letter_topics
from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.actions import Action, Ended, Outcome, doubt_of, read_action
from kafka_redelivery.topology.redrive.job import JobLog
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.calls import with_leaders
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import Identities, identities
from kafka_redelivery.transport.assigned_reader import read_batches
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)

_FILE_ROWS: Final = 40_000
_FILE_BYTES: Final = 12 << 20
"""When a file of letters or actions is written, so that memory stays flat."""

_ASK_AGAIN_MS: Final = 60_000
"""After so long schemas are asked for again that could not be had. A registry that does not answer takes seconds."""


class Question:
    """A selection that letters are compared with while they are read."""

    def __init__(self, selection: Selection, basis: Basis) -> None:
        self.selection, self._basis = selection, basis
        self.undecoded = Undecoded()
        """Of all letters that it was asked about."""

    def chosen(self, folder: Path, manifest: Manifest, letters: Table, now_ms: int) -> set[tuple[int, int]]:
        """Return slot and offset of those letters that are meant; ``now_ms``: the time (epoch ms)."""
        asked = replace(manifest, letter_files=(), basis=replace(self._basis, question=False))
        with closing(database(folder, asked, letters)) as opened:
            wanted = condition_of(self.selection, lambda sql: run(opened, sql), self._basis)
            with time_limit(opened, LIMIT_S):
                if self.selection.asks_for_values and self._basis.coded:
                    self.undecoded += undecoded(self.selection, partial(run, opened), self._basis, now_ms)
                return set(run(opened, f'SELECT slot, "offset" FROM letters WHERE {wanted.sql}', wanted.parameters))  # noqa: S608 - compiled


@dataclass(slots=True)
class Refresh:
    """One refresh of one index, see :meth:`Index.refresh`."""

    settings: LetterSource
    basis: Basis
    folder: IndexFolder
    progress: ReportProgress
    settled: bool
    now_ms: int
    offsets: PartitionOffsets
    texts: Mapping[str, ValueTexts]
    question: Question | None = None
    skip_leaderless: bool = False
    """Whether a partition without a leader stays as it is, instead of a failure after a wait for its leader."""

    unread: frozenset[Partition] = field(init=False, default=frozenset())
    """Those partitions."""

    _ends: Mapping[Partition, int] = field(init=False, default_factory=dict)
    _read: int = field(init=False, default=0)
    _total: int = field(init=False, default=0)

    def run(self, waiting: Callable[[], None], *, anew: bool = False, letters: bool = True) -> None:
        """Refresh and publish the index. An index that is damaged, or of another basis, is built anew.

        Without ``letters``, the basis becomes that of the index if they differ in how values are decoded alone. That is
        about letters, and a command that reads none may not know the folder of their schemas.
        """
        with self.folder.writing(waiting), _no_cycles():
            before = None if anew else self.folder.manifest()
            if before is not None and not letters and replace(before.basis, decoded=self.basis.decoded) == self.basis:
                self.basis = before.basis
            if before is not None and (before.basis != self.basis or not self.folder.is_whole(before)):
                before = None
            try:
                try:
                    self._run(before or Manifest(basis=self.basis), letters=letters)
                except duckdb.Error:
                    if before is None or self.folder.is_intact(before):
                        raise
                    self._run(Manifest(basis=self.basis), letters=letters)
            except (duckdb.Error, OSError) as error:
                raise IndexUnusableError(
                    f"the index of dead letters in {self.folder.path} cannot be written: {error}; free some space, or "
                    "name another folder with --index or deadLetters.index.path"
                ) from error

    def _run(self, before: Manifest, *, letters: bool) -> None:
        jobs, actions = job_topics(self.settings, self.basis.group)
        names = (*letter_topics(self.settings), jobs, actions)
        found = with_leaders(
            lambda: identities(self.settings.kafka, names, calls=self.offsets.calls),
            lambda asked: self.skip_leaderless and any(each.leaderless for each in asked.topics.values()),
        )
        if self.basis.recognition is None or jobs in found.topics:
            refuse_missing((jobs, actions), found.topics, self.basis.group)
        if self.skip_leaderless:
            self.unread = frozenset(
                Partition(name, number) for name, each in found.topics.items() for number in each.leaderless
            )
        partitions = letter_partitions(self.settings, {name: each.partitions for name, each in found.topics.items()})
        with closing(Store(self.folder)) as store:
            after = self._slots(before, found, partitions)
            if letters and self.question is None:
                after = self._letters(store, before, after)
            if jobs in found.topics:
                after = self._facts(store, after, found, jobs, actions)
            else:  # of another system, before its first job
                after = replace(after, facts=Facts())
            slots = tuple(each.number for each in after.slots)
            if slots != before.standings_slots or after.facts != before.facts:
                after = replace(after, standings_file=store.standings(after), standings_slots=slots)
            if letters and self.question is not None:  # it may be about where letters stand
                after = self._letters(store, before, after)
            self.folder.publish(replace(after, refreshed_ms=self.now_ms if letters else before.refreshed_ms))

    def _slots(self, before: Manifest, found: Identities, partitions: Sequence[Partition]) -> Manifest:
        """Return the manifest with the slots of the present partitions, and note how much there is to read."""
        readable = [each for each in partitions if each not in self.unread]
        starts = self.offsets.log_start_offsets(readable)
        ends = self.offsets.last_stable_offsets(readable)
        known = {Partition(each.topic, each.partition): each for each in before.slots}
        slots, number = [], before.next_slot
        for each in partitions:
            topic, slot = found.topics[each.topic], known.get(each)
            if each in self.unread:  # what is known of it stays, and the next refresh goes on there
                slots += [slot] if slot is not None and slot.topic_id == topic.id else []
                continue
            if slot is None or slot.topic_id != topic.id or slot.position > ends[each] or topic.compacted:
                # A partition that ends before what was read is not the one that was read.
                slot = Slot(
                    number=number, topic=each.topic, partition=each.number, topic_id=topic.id, start=0, position=0
                )
                number += 1
            slots.append(replace(slot, start=starts[each], position=max(slot.position, starts[each])))
        was = {each.topic: each.topic_id for each in before.slots}
        now = {each.topic: each.topic_id for each in slots}
        for name in TopicIds(ids=was).created_again(TopicIds(ids=now)):
            _log.warning("topic %s was deleted and created again; what earlier jobs say is about other letters", name)
        positions = {Partition(each.topic, each.partition): each.position for each in slots}
        self._total = sum(end - positions[each] for each, end in ends.items())
        self._ends = ends
        return replace(before, slots=tuple(slots), next_slot=number)

    def _letters(self, store: Store, before: Manifest, manifest: Manifest) -> Manifest:
        places = {Partition(each.topic, each.partition): each for each in manifest.slots}
        question = self.question
        numbers: dict[tuple[str, int], int] = {place: each.number for place, each in places.items()}
        asks = not manifest.asked_ms <= self.now_ms < manifest.asked_ms + _ASK_AGAIN_MS
        if asks:
            manifest = self._decoded(store, manifest)
        rows = RowMaker(numbers, self.basis, self.texts)
        schema = SCHEMA if question is None else SCHEMA | {"chosen": "BOOLEAN"}
        held = _NextFile()
        positions: dict[Partition, int] = {}
        for batch in read_batches(
            self.settings.kafka,
            self.settings.group,
            {place: each.position for place, each in places.items()},
            self._ends,
        ):
            positions |= batch.positions
            if batch.messages:
                columns = rows.columns(batch)
                if question is not None:
                    chosen = question.chosen(self.folder.path, manifest, table_of(columns), self.now_ms)
                    columns = answered(columns, self.basis, chosen)
                held.add(table_of(columns, schema))
                self._advance(len(batch.messages))
            if held.full:
                manifest = _written(store, manifest, held.take(), positions)
                self.folder.publish(manifest)
        manifest = _written(store, manifest, held.take(), positions)
        if rows.lacking:
            manifest = replace(manifest, lacking=rows.lacking, asked_ms=self.now_ms if asks else manifest.asked_ms)
        if manifest.letter_files == before.letter_files and _starts(manifest) == _starts(before):
            return manifest
        return replace(manifest, letter_files=store.letters_left(manifest.letter_files, manifest.slots))

    def _decoded(self, store: Store, manifest: Manifest) -> Manifest:
        """Decode values whose schemas could not be had before."""
        for each in self.texts.values():
            each.again()
        lacking = ""

        def text(origin: str, value: bytes, header: bytes | None) -> str | None:
            nonlocal lacking
            try:
                return self.texts[origin](value, header)
            except SchemaLackingError as error:
                lacking = str(error)
                raise

        files = [store.decoded(each, text) if each.waiting else each for each in manifest.letter_files]
        asked_ms = self.now_ms if lacking else 0
        return replace(manifest, letter_files=tuple(files), lacking=lacking, asked_ms=asked_ms)

    def _facts(self, store: Store, manifest: Manifest, found: Identities, jobs: str, actions: str) -> Manifest:
        topic_ids, facts = (found.topics[jobs].id, found.topics[actions].id), manifest.facts
        if Partition(jobs, 0) in self.unread:  # what is known stays
            return replace(manifest, facts=facts if facts.topic_ids == topic_ids else Facts())
        every = [Partition(topic, each) for topic in (jobs, actions) for each in range(found.topics[topic].partitions)]
        partitions = [each for each in every if each not in self.unread]
        ends = (self.offsets.high_watermarks if self.settled else self.offsets.last_stable_offsets)(partitions)
        known = {str(each): facts.starts[str(each)] for each in self.unread if str(each) in facts.starts}
        begins = known | {str(each): at for each, at in self.offsets.log_start_offsets(partitions).items()}
        if (
            facts.topic_ids != topic_ids
            or any(begins.get(each) != start for each, start in facts.starts.items())
            or any(at > ends[each] for each, at in _positions(facts, partitions, jobs).items())
            or any(found.topics[each].compacted for each in (jobs, actions))
        ):
            facts = Facts(topic_ids=topic_ids)
        starts, facts = _positions(facts, partitions, jobs), replace(facts, starts=begins)
        self._total += sum(ends[each] - starts[each] for each in partitions)
        if starts[Partition(jobs, 0)] < ends[Partition(jobs, 0)]:
            facts = self._jobs(store, facts, jobs)
        facts = self._actions(store, facts, actions, starts, ends)
        if isinstance(self.settings, OtherSystem):
            facts = self._deaths(store, replace(manifest, facts=facts), self.settings, found, jobs)
        if facts.unread and (self.settled or facts.unread != manifest.facts.unread):
            warning = "%d records of %s and %s cannot be read and are left out; `redelivery dlq jobs` names them"
            _log.warning(warning, facts.unread, jobs, actions)
        return replace(manifest, facts=facts)

    def _jobs(self, store: Store, facts: Facts, topic: str) -> Facts:
        """Read all jobs, even if few are new: any record may change what those before it mean."""
        log, left_out = JobLog(), LeftOut()
        end = read_jobs(self.settings, topic, log, 0, left_out, settled=self.settled, offsets=self.offsets)
        log.settle()
        now = TopicIds(cluster=self.basis.cluster)  # the ids of topics are compared with those of the slots
        here = [job for job in log.jobs.values() if not job.spec.topics.elsewhere(now)]
        return replace(facts, jobs=end, owned_file=store.owned(here), unread_jobs=left_out.count)

    def _deaths(self, store: Store, manifest: Manifest, settings: OtherSystem, found: Identities, jobs: str) -> Facts:
        """Note which letters of another system have died again: its dead letters say it, and no action does.

        Only if there are new ones or new jobs, because all are read.
        """
        facts = manifest.facts
        bounds = [
            (each.number, each.start, self._ends.get(Partition(each.topic, each.partition), each.position))
            for each in manifest.slots
        ]
        seen = facts.jobs, *chain.from_iterable(bounds)
        if seen == facts.deaths_seen or self.unread:  # all letters are read anew, or none
            return facts
        log = JobLog()
        read_jobs(settings, jobs, log, 0, LeftOut(), settled=self.settled, offsets=self.offsets)
        log.settle()
        now = TopicIds(cluster=self.basis.cluster, ids={name: each.id for name, each in found.topics.items()})
        deaths = SecondDeaths(settings)
        died = deaths.found(log, self._ends, now)
        again = (Action(each.job, each.slice, Ended(each.offset, Outcome.DEAD_AGAIN)) for each in died)
        rows = list(action_rows(again, 0))
        file = store.write("deaths", [actions_table(rows)]) if rows else None
        return replace(facts, deaths_file=file, deaths_seen=seen if deaths.complete else ())

    def _actions(
        self, store: Store, facts: Facts, topic: str, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
    ) -> Facts:
        held = _NextFile()
        positions: dict[Partition, int] = {}
        left_out = LeftOut()
        files, sequence = facts.action_files, facts.sequence
        wanted = {each: end for each, end in ends.items() if each.topic == topic}
        for batch in read_batches(self.settings.kafka, self.settings.group, starts, wanted):
            positions |= batch.positions
            rows = list(action_rows(_actions(batch.messages, left_out), sequence))
            sequence += len(rows)
            if rows:
                held.add(actions_table(rows))
            if held.full:
                files = (*files, store.write("actions", held.take()))
            self._advance(len(batch.messages))
        last = held.take()
        if last:
            files = store.merged("actions", (*files, store.write("actions", last)))
        read = {place.number: offset for place, offset in positions.items()}
        unread = facts.unread_actions + left_out.count
        return replace(
            facts, sequence=sequence, actions={**facts.actions, **read}, action_files=files, unread_actions=unread
        )

    def _advance(self, records: int) -> None:
        self._read += records
        self.progress(self._read, max(self._total, self._read))


def _written(store: Store, manifest: Manifest, tables: Sequence[Table], positions: Mapping[Partition, int]) -> Manifest:
    files = (*manifest.letter_files, store.write("letters", tables)) if tables else manifest.letter_files
    slots = tuple(
        replace(each, position=positions.get(Partition(each.topic, each.partition), each.position))
        for each in manifest.slots
    )
    return replace(manifest, letter_files=files, slots=slots)


@contextmanager
def _no_cycles() -> Iterator[None]:
    """Switch the search for reference cycles off: records have none, and it takes 40 % of the time of a first build."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class _NextFile:
    """What waits to be written into one file."""

    def __init__(self) -> None:
        self._tables: list[Table] = []
        self._rows = self._bytes = 0

    @property
    def full(self) -> bool:
        return self._rows >= _FILE_ROWS or self._bytes >= _FILE_BYTES

    def add(self, table: Table) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes

    def take(self) -> list[Table]:
        taken, self._tables, self._rows, self._bytes = self._tables, [], 0, 0
        return taken


def _starts(manifest: Manifest) -> dict[int, int]:
    """Return where the letters of each slot start: before it they are deleted."""
    return {each.number: each.start for each in manifest.slots}


def _positions(facts: Facts, partitions: Sequence[Partition], jobs: str) -> dict[Partition, int]:
    return {each: facts.jobs if each.topic == jobs else facts.actions.get(each.number, 0) for each in partitions}


def _actions(messages: Sequence[Message], left_out: LeftOut) -> Iterator[Action]:
    for message in messages:
        try:
            action = read_action(message.key(), message.value())
            if action is None:
                left_out.add(message)
        except RedriveRecordError as error:
            left_out.add(message, error)
            action = doubt_of(message.key(), message.value())
        if action is not None:
            yield action
