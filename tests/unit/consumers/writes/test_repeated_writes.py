"""Outcomes of an aborted write are written again if the committed offsets are unchanged."""

from collections.abc import Collection, Mapping
from itertools import chain

import pytest

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import size_of
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.engine import Committed, End, Repeat, Rewind, WriteLimits
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import MembershipOutdatedError, OffsetsForbiddenError, WriteAbortedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import DEAD, OUT_OF_MEMORY, RAISED, REJECTED, TIER, handled, output, shared
from tests.unit.consumers.doubles import RecordingObserver, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import record, source

ORDERS, OTHER = Partition("orders", 0), Partition("orders", 1)


class Parts:
    """A committer whose writes are aborted with these errors, and then committed."""

    def __init__(
        self, *script: Exception, max_records: int = 100, dependencies: BatchDependencies | None = None
    ) -> None:
        self.writer = ScriptedWriter(list(script))
        self.observer = RecordingObserver()
        self.offsets = StoredOffsets()
        self.committer = Committer(
            dependencies or shared(), self.writer, self.offsets, self.observer, WriteLimits(max_records)
        )

    def write(self, *assigned: AssignedPartition, found: Mapping[Partition, Checkpoint] | None = None) -> End | None:
        """Write the batch; ``found``: the offsets that are committed if the write is aborted."""
        self.committer.begin(assigned)
        return self.end(found)

    def end(self, found: Mapping[Partition, Checkpoint] | None = None) -> End | None:
        """Wait for the end of the write."""
        self.offsets.commits = dict(found or {})
        return self.committer.end(None)

    def values(self) -> list[list[bytes | None]]:
        """The values of the records in each confirmed write."""
        return [[copy.value for copy in copies] for copies, _ in self.writer.confirmed]


def emitting(assigned: AssignedPartition, first: int, number: int, *, size: int = 1) -> WorkItem:
    """A work item of successes with one output each."""
    records = [record(n) for n in range(first, first + number)]
    outputs = {index: [output(b"%d" % each.offset() * size)] for index, each in enumerate(records)}
    item = handled(assigned, *records, outputs=outputs)
    item.bytes = size_of(item.messages)
    return item


TIMED_OUT = WriteAbortedError("timed out")


class TestUnchanged:
    def test_all_outcomes_are_written_again_in_smaller_writes(self) -> None:
        """In their order, those collected meanwhile behind them. No record is fetched or handled again."""
        parts, assigned = Parts(TIMED_OUT), source()
        parts.writer.slow = True
        parts.committer.batch.add(emitting(assigned, 0, 8))
        parts.committer.begin(())
        parts.committer.batch.add(emitting(assigned, 8, 2))
        assert isinstance(parts.end(), Repeat)
        parts.committer.batch.add(emitting(assigned, 10, 2))
        while parts.committer.batch.size:
            assert parts.committer.should_write(more_to_come=False)
            assert isinstance(parts.write(), Committed)
        written = parts.values()
        assert len(written[0]) <= 4
        assert list(chain(*written)) == [b"%d" % n for n in range(12)]
        offsets = [checkpoints[ORDERS].offset for _, checkpoints in parts.writer.confirmed]
        assert offsets == sorted(offsets)
        assert parts.writer.confirmed[-1][1] == {ORDERS: Checkpoint(12, "")}
        assert sum(sum(report.outcomes.values()) for report in parts.observer.commits) == 12

    def test_no_write_commits_an_outcome_that_is_not_part_of_it(self) -> None:
        """The offset of each write is that of its last output."""
        parts, assigned = Parts(TIMED_OUT), source()
        parts.committer.batch.add(emitting(assigned, 0, 8))
        parts.write()
        while parts.committer.batch.size:
            parts.write()
        done = 0
        for copies, checkpoints in parts.writer.confirmed:
            done += len(copies)
            assert checkpoints[ORDERS] == Checkpoint(done, "")

    def test_a_decision_is_made_once(self) -> None:
        """So a retry keeps its due time, and a dead letter is not suppressed as a duplicate of itself."""
        parts, assigned = Parts(TIMED_OUT, TIMED_OUT), source()
        item = handled(assigned, *map(record, range(4)), failures={1: RAISED, 2: REJECTED})
        parts.committer.batch.add(item)
        for _ in range(2):
            assert isinstance(parts.write(), Repeat)
        while parts.committer.batch.size:
            assert isinstance(parts.write(), Committed)
        first = [(copy.topic, copy.headers) for copy in parts.writer.tried[0][0]]
        again = [(copy.topic, copy.headers) for copies, _ in parts.writer.confirmed for copy in copies]
        assert [topic for topic, _ in first] == [TIER, DEAD]
        assert again == first

    def test_the_limits_grow_again(self) -> None:
        parts, assigned = Parts(TIMED_OUT), source()
        parts.committer.batch.add(emitting(assigned, 0, 64))
        parts.write()
        while parts.committer.batch.size:
            parts.write()
        lengths = [len(copies) for copies, _ in parts.writer.confirmed]
        assert lengths[0] <= 32
        assert len(lengths) <= 3

    def test_a_large_output_is_written_alone(self) -> None:
        """The size of a write is limited, too."""
        parts, assigned = Parts(TIMED_OUT, TIMED_OUT, TIMED_OUT), source()
        parts.committer.batch.add(emitting(assigned, 0, 4, size=10_000))
        for _ in range(3):
            parts.write()
        parts.write()
        assert len(parts.writer.confirmed[0][0]) == 1

    @pytest.mark.parametrize(("max_bytes", "number"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (99, 4)])
    def test_a_write_takes_records_until_its_size_is_reached(self, max_bytes: int, number: int) -> None:
        """Each has five bytes, and an output of five. The last one may exceed the limit, so that there is progress."""
        limits = WriteLimits(9, 100)
        limits.bytes = max_bytes
        batch = Batch(shared(), limits=limits)
        batch.add(emitting(source(), 0, 4, size=5))
        assert (batch.size, len(batch.produced)) == (number, number)

    def test_new_outcomes_are_limited_after_the_kept_ones_are_written(self) -> None:
        """Otherwise the next write would be too large again."""
        parts, assigned = Parts(TIMED_OUT, TIMED_OUT), source()
        parts.writer.seconds = 20.0
        parts.committer.batch.add(emitting(assigned, 0, 16))
        for _ in range(2):
            parts.write()
        while parts.committer.batch.size:
            parts.write()
        parts.committer.batch.add(emitting(assigned, 16, 64))
        assert parts.committer.full
        assert 1 <= parts.committer.batch.size <= 4

    def test_what_is_kept_counts_in_the_buffer(self) -> None:
        parts, assigned = Parts(TIMED_OUT), source()
        parts.committer.batch.add(emitting(assigned, 0, 8, size=100))
        before = parts.committer.bytes
        parts.write()
        assert before > 8 * size_of((record(0),))
        assert parts.committer.bytes == before
        assert parts.committer.full, "no further outcome is collected before these are written"

    def test_an_outdated_membership_does_not_reduce_writes(self) -> None:
        """Its cause is not the size."""
        parts, assigned = Parts(MembershipOutdatedError("rebalance")), source()
        parts.committer.batch.add(emitting(assigned, 0, 8))
        assert isinstance(parts.write(), Repeat)
        parts.write()
        assert [len(copies) for copies, _ in parts.writer.confirmed] == [8]

    def test_a_position_is_committed_again(self) -> None:
        """That of a partition without outcomes. It says nothing about the size of later writes."""
        parts, assigned = Parts(TIMED_OUT), source(next_offset=17)
        assert isinstance(parts.write(assigned), Repeat)
        assert assigned.dirty
        parts.committer.batch.add(emitting(assigned, 17, 8))
        assert not parts.committer.full

    def test_a_halt_waits_for_its_write(self) -> None:
        """No record is handed out meanwhile."""
        parts, assigned = Parts(TIMED_OUT), source()
        item = handled(assigned, *map(record, range(4)), failures={3: OUT_OF_MEMORY})
        parts.committer.batch.add(item)
        parts.write()
        while not parts.committer.batch.halts:
            assert isinstance(parts.write(), Committed)
            assert parts.committer.halting
        assert parts.writer.confirmed
        with pytest.raises(HaltedError, match="orders-0@3"):
            parts.write()


class TestCommittedAfterAll:
    def test_it_counts_as_written(self) -> None:
        """The answer of the commit was lost."""
        parts, assigned = Parts(TIMED_OUT), source()
        parts.committer.batch.add(emitting(assigned, 0, 2))
        parts.committer.begin(())
        parts.committer.batch.add(emitting(assigned, 2, 2))
        assert isinstance(parts.end({ORDERS: Checkpoint(2, "")}), Committed)
        assert [sum(report.outcomes.values()) for report in parts.observer.commits] == [2]
        parts.write()
        assert parts.values() == [[b"2", b"3"]]
        assert assigned.committed == Checkpoint(4, "")

    def test_a_slow_write_leaves_the_limits_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is known to be committed only after its time-out."""
        now = [1000.0]
        monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", lambda: now[0])
        parts, assigned = Parts(TIMED_OUT, TIMED_OUT), source()
        parts.committer.batch.add(emitting(assigned, 0, 8))
        assert isinstance(parts.write(), Repeat)
        now[0] += 60
        parts.committer.begin(())
        now[0] += 30
        assert isinstance(parts.end({ORDERS: Checkpoint(4, "")}), Committed)
        parts.committer.batch.add(emitting(assigned, 8, 8))
        assert parts.committer.batch.size == 4


class TestUnknown:
    def test_another_member_has_committed_the_same_offset(self) -> None:
        """Kafka refused this write, so its outcomes are those of the partition's next owner."""
        parts = Parts(MembershipOutdatedError("rebalance"))
        parts.committer.batch.add(emitting(source(), 0, 2))
        assert isinstance(parts.write(found={ORDERS: Checkpoint(2, "")}), Rewind)
        assert parts.observer.commits == []

    def test_another_writer_has_committed(self) -> None:
        parts, assigned = Parts(TIMED_OUT), source()
        parts.committer.batch.add(emitting(assigned, 0, 2))
        assert isinstance(parts.write(found={ORDERS: Checkpoint(1, "")}), Rewind)
        parts.committer.discard()
        assert not parts.committer.batch.size

    def test_a_part_is_committed(self) -> None:
        """A transaction commits all offsets or none, so another writer has committed some of them."""
        parts = Parts(TIMED_OUT)
        for number in range(2):
            parts.committer.batch.add(handled(source(partition=number), record(0, partition=number)))
        assert isinstance(parts.write(found={ORDERS: Checkpoint(1, "")}), Rewind)

    def test_a_part_is_committed_without_a_transaction(self) -> None:
        """The offsets are committed again. No record is produced again."""
        parts = Parts(WriteAbortedError("not committed", unconfirmed=()))
        for number in range(2):
            item = handled(source(partition=number), record(0, partition=number), outputs={0: [output(b"x")]})
            parts.committer.batch.add(item)
        assert isinstance(parts.write(found={ORDERS: Checkpoint(1, "")}), Repeat)
        parts.write()
        assert parts.writer.confirmed == [([], {ORDERS: Checkpoint(1, ""), OTHER: Checkpoint(1, "")})]

    def test_offsets_that_may_not_be_committed(self) -> None:
        """To repeat the write would hold up the partitions of other topics for as long as the right is missing."""
        for reported in (["orders"], []):
            parts = Parts(OffsetsForbiddenError("denied", reported))
            parts.committer.batch.add(emitting(source(), 0, 2))
            assert isinstance(parts.write(), Rewind)
            assert set(parts.offsets.forbidden) == {"orders"}

    def test_the_offsets_would_not_have_changed(self) -> None:
        """A halt commits nothing. Only if nothing was produced it is certain that a repetition does no harm."""
        for journal, expected in ((False, Repeat), (True, Rewind)):
            parts = Parts(TIMED_OUT, dependencies=shared(journal=journal))
            assigned = source()
            assigned.committed = Checkpoint(0, "")
            assigned.progress.wait_in_place(0, 1, 0)
            assigned.committed = assigned.progress.checkpoint()
            parts.committer.batch.add(handled(assigned, record(0), failures={0: OUT_OF_MEMORY}))
            parts.committer.batch.produced += [output(b"x")] * journal
            assert isinstance(parts.write(found={ORDERS: assigned.committed}), expected)


class TestPartitionsThatLeft:
    @pytest.mark.parametrize("leaves", ["before its end", "after it"])
    def test_their_outcomes_are_dropped(self, leaves: str) -> None:
        """Those of the other partitions are written."""
        parts, left, stays = Parts(TIMED_OUT), source(), source(partition=1)
        parts.committer.batch.add(handled(left, record(0), failures={0: REJECTED}))
        parts.committer.batch.add(handled(stays, record(0, partition=1), failures={0: REJECTED}))
        parts.committer.begin(())
        if leaves == "before its end":
            left.closed = True
        assert isinstance(parts.end(), Repeat)
        left.closed = True
        parts.committer.drop_closed()
        while parts.committer.batch.size:
            parts.write()
        assert [set(checkpoints) for _, checkpoints in parts.writer.confirmed] == [{OTHER}]
        assert [len(copies) for copies, _ in parts.writer.confirmed] == [1]

    def test_those_collected_during_a_write(self) -> None:
        """The write under way is not affected."""
        parts, left, stays = Parts(), source(), source(partition=1)
        parts.committer.batch.add(emitting(left, 0, 1))
        parts.committer.begin(())
        parts.committer.batch.add(emitting(left, 1, 1))
        parts.committer.batch.add(handled(stays, record(0, partition=1)))
        left.closed = True
        parts.committer.drop_closed()
        assert isinstance(parts.end(), Committed)
        parts.write()
        assert [set(checkpoints) for _, checkpoints in parts.writer.confirmed] == [{ORDERS}, {OTHER}]


class TestWithoutTransactions:
    @pytest.mark.parametrize(
        ("unconfirmed", "again"), [((), []), ((1, 2), [b"1", b"2"]), (None, [b"0", b"1", b"2", b"3"])]
    )
    def test_only_unconfirmed_copies_are_repeated(
        self, unconfirmed: Collection[int] | None, again: list[bytes]
    ) -> None:
        """All of them if the writer does not know which are."""
        parts, assigned = Parts(WriteAbortedError("timed out", unconfirmed=unconfirmed)), source()
        parts.committer.batch.add(emitting(assigned, 0, 4))
        parts.write()
        while parts.committer.batch.size:
            parts.write()
        assert list(chain(*parts.values())) == again
        assert parts.writer.confirmed[-1][1] == {ORDERS: Checkpoint(4, "")}

    def test_aborted_again(self) -> None:
        """The second time the indexes are those of the copies that were left."""
        parts = Parts(WriteAbortedError("", unconfirmed={0, 2}), WriteAbortedError("", unconfirmed={1}))
        outputs = {0: [output(b"a"), output(b"b"), output(b"c")]}
        parts.committer.batch.add(handled(source(), record(0), outputs=outputs))
        for _ in range(2):
            assert isinstance(parts.write(), Repeat)
        parts.write()
        tried = [[copy.value for copy in copies] for copies, _ in parts.writer.tried]
        assert tried == [[b"a", b"b", b"c"], [b"a", b"c"], [b"c"]]
