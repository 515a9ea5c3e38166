"""Brings an index up to date from the topics: only what was added is read, and what was deleted is left out."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import duckdb
from arro3.core import Table

from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.index.catalogue import Basis, Catalogue, Facts, Slot
from kafka_redelivery.dead_letters.index.facts import action_rows, table_of
from kafka_redelivery.dead_letters.index.folder import IndexFolder
from kafka_redelivery.dead_letters.index.rows import RowMaker
from kafka_redelivery.dead_letters.index.store import Store
from kafka_redelivery.dead_letters.job_reading import LeftOut, read_jobs
from kafka_redelivery.dead_letters.ledger import redrive_topics, refuse_missing
from kafka_redelivery.dead_letters.letter_places import letter_partitions
from kafka_redelivery.dead_letters.reading import ReportProgress
from kafka_redelivery.topology.cluster.sweep_plan import dead_letter_topics
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.actions import Action, doubt_of, read_action
from kafka_redelivery.topology.redrive.job import JobLog
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.identities import Identities, identities
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.clients.bulk_reader import read_batches
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)

_FILE_ROWS: Final = 100_000
_FILE_BYTES: Final = 32 << 20
"""When a file of letters or actions is written, so that memory stays flat."""


@dataclass(slots=True)
class Refresh:
    """One refresh of one index.

    Args:
        settings: how to reach Kafka, and the names of topics.
        basis: what the index depends on.
        folder: where it is.
        progress: receives the number of records that were read, and of all.
        settled: whether to wait for open transactions of jobs and outcomes; otherwise the index has what is committed.
        now_ms: the present (epoch ms).
        offsets: asks Kafka how far the topics are.
    """

    settings: Settings
    basis: Basis
    folder: IndexFolder
    progress: ReportProgress
    settled: bool
    now_ms: int
    offsets: PartitionOffsets
    _ends: Mapping[Partition, int] = field(init=False, default_factory=dict)
    _read: int = field(init=False, default=0)
    _total: int = field(init=False, default=0)

    def run(self, waiting: Callable[[], None], *, thoroughly: bool = False) -> None:
        """Refresh and publish the index. An index that is damaged, or of another basis, is built anew.

        Args:
            waiting: called again and again while another process writes.
            thoroughly: whether to read all files to see whether one is damaged.

        Raises:
            IndexUnusableError: the files cannot be written.
            RedriveError: the cluster does not show the topics.
            TransportError: Kafka does not answer or denies access.
        """
        with self.folder.writing(waiting), _no_cycles():
            before = self.folder.catalogue()
            if before is not None and before.basis != self.basis:
                before = None
            if before is not None and not self.folder.is_whole(before, thoroughly=thoroughly):
                before = None
            try:
                try:
                    self._run(before or Catalogue(basis=self.basis))
                except duckdb.Error:
                    if before is None or self.folder.is_whole(before, thoroughly=True):
                        raise
                    self._run(Catalogue(basis=self.basis))
            except (duckdb.Error, OSError) as error:
                raise IndexUnusableError(
                    f"the index of dead letters in {self.folder.path} cannot be written: {error}; free some space, or "
                    "name another folder with --index or deadLetters.index.path"
                ) from error

    def _run(self, before: Catalogue) -> None:
        jobs, actions = redrive_topics(self.settings, self.basis.group)
        names = (*dead_letter_topics(self.settings), jobs, actions)
        found = identities(self.settings.kafka, names, calls=self.offsets.calls)
        refuse_missing((jobs, actions), found.topics, self.basis.group)
        partitions = letter_partitions(self.settings, {name: each.partitions for name, each in found.topics.items()})
        with closing(Store(self.folder)) as store:
            after = self._letters(store, before, self._slots(before, found, partitions))
            after = self._facts(store, after, found, jobs, actions)
            slots = tuple(each.number for each in after.slots)
            if slots != before.standings_slots or after.facts != before.facts:
                after = replace(after, standings_file=store.standings(after), standings_slots=slots)
            after = replace(after, refreshed_ms=self.now_ms)
            self.folder.publish(after)
            self.folder.remove_others(after)

    def _slots(self, before: Catalogue, found: Identities, partitions: Sequence[Partition]) -> Catalogue:
        """Return the catalogue with the slots of the present partitions, and note how much there is to read."""
        starts = self.offsets.log_start_offsets(partitions)
        ends = self.offsets.last_stable_offsets(partitions)
        known = {Partition(each.topic, each.partition): each for each in before.slots}
        slots, number = [], before.next_slot
        for each in partitions:
            topic, slot = found.topics[each.topic], known.get(each)
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
        self._total = sum(ends[Partition(each.topic, each.partition)] - each.position for each in slots)
        self._ends = ends
        return replace(before, slots=tuple(slots), next_slot=number)

    def _letters(self, store: Store, before: Catalogue, catalogue: Catalogue) -> Catalogue:
        places = {Partition(each.topic, each.partition): each for each in catalogue.slots}
        rows = RowMaker(
            {place: each.number for place, each in places.items()},
            class_only=self.basis.class_only,
            values=self.basis.values,
            undecodable=frozenset(self.basis.undecodable),
        )
        held = _Held()
        positions: dict[Partition, int] = {}
        for batch in read_batches(
            self.settings.kafka,
            self.settings.group,
            {place: each.position for place, each in places.items()},
            self._ends,
        ):
            positions |= batch.positions
            if batch.messages:
                held.add(rows.table(batch))
                self._advance(len(batch.messages))
            if held.full:
                catalogue = _written(store, catalogue, held.take(), positions)
                self.folder.publish(catalogue)
        catalogue = _written(store, catalogue, held.take(), positions)
        if catalogue.letter_files == before.letter_files and _starts(catalogue) == _starts(before):
            return catalogue
        return replace(catalogue, letter_files=store.merged(catalogue.letter_files, catalogue.slots))

    def _facts(self, store: Store, catalogue: Catalogue, found: Identities, jobs: str, actions: str) -> Catalogue:
        partitions = [
            Partition(topic, each) for topic in (jobs, actions) for each in range(found.topics[topic].partitions)
        ]
        ends = (self.offsets.high_watermarks if self.settled else self.offsets.last_stable_offsets)(partitions)
        begins = {f"{each.topic}-{each.number}": at for each, at in self.offsets.log_start_offsets(partitions).items()}
        facts = catalogue.facts
        topic_ids = found.topics[jobs].id, found.topics[actions].id
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
        if facts.unread and (self.settled or facts.unread != catalogue.facts.unread):
            warning = "%d records of %s and %s cannot be read and are left out; `redelivery dlq jobs` names them"
            _log.warning(warning, facts.unread, jobs, actions)
        return replace(catalogue, facts=facts)

    def _jobs(self, store: Store, facts: Facts, topic: str) -> Facts:
        """Read all jobs, even if few are new: any record may change what those before it mean."""
        log = JobLog()
        left_out = LeftOut()
        end = read_jobs(self.settings, topic, log, 0, left_out, settled=self.settled, offsets=self.offsets)
        log.settle()
        now = TopicIds(
            cluster=self.basis.cluster
        )  # the ids of topics are compared when it is known where letters stand
        here = [job for job in log.jobs.values() if not job.spec.topics.elsewhere(now)]
        return replace(facts, jobs=end, owned_file=store.owned(here), unread_jobs=left_out.count)

    def _actions(
        self, store: Store, facts: Facts, topic: str, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
    ) -> Facts:
        held = _Held()
        positions: dict[Partition, int] = {}
        left_out = LeftOut()
        files, sequence = facts.action_files, facts.sequence
        wanted = {each: end for each, end in ends.items() if each.topic == topic}
        for batch in read_batches(self.settings.kafka, self.settings.group, starts, wanted):
            positions |= batch.positions
            rows = list(action_rows(_actions(batch.messages, left_out), sequence))
            sequence += len(rows)
            if rows:
                held.add(table_of(rows))
            if held.full:
                files = (*files, store.actions(held.take()))
            self._advance(len(batch.messages))
        last = held.take()
        if last:
            files = store.merged_facts("actions", (*files, store.actions(last)))
        read = {place.number: offset for place, offset in positions.items()}
        unread = facts.unread_actions + left_out.count
        return replace(
            facts, sequence=sequence, actions={**facts.actions, **read}, action_files=files, unread_actions=unread
        )

    def _advance(self, records: int) -> None:
        self._read += records
        self.progress(self._read, max(self._total, self._read))


def _written(
    store: Store, catalogue: Catalogue, tables: Sequence[Table], positions: Mapping[Partition, int]
) -> Catalogue:
    files = (*catalogue.letter_files, store.letters(tables)) if tables else catalogue.letter_files
    return replace(catalogue, letter_files=files).with_positions(positions)


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


class _Held:
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


def _starts(catalogue: Catalogue) -> dict[int, int]:
    """Return where the letters of each slot start: before it they are deleted."""
    return {each.number: each.start for each in catalogue.slots}


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
