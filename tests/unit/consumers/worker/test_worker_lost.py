"""A worker that lost its partitions while it was stalled writes nothing for them when it comes back."""

from threading import Timer

import pytest

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.fetcher import Fetcher
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import FinishedItems, WorkItem
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.worker.dispatcher import Dispatcher
from kafka_redelivery.consumers.worker.worker import Worker
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.topology.config.settings import LimitsSection, Ordering
from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import shared
from tests.unit.consumers.doubles import RecordingObserver, ScriptedWriter, StoredOffsets, no_stops
from tests.unit.consumers.records import NOW, record, route

LOST = Partition("orders", 0)
RETAINED = Partition("orders", 1)


class ImmediateSlots:
    """Slots that handle a work item when it is submitted."""

    capacity = 1

    def __init__(self, processor: Processor, finished: FinishedItems) -> None:
        self._processor = processor
        self._finished = finished

    def submit(self, item: WorkItem) -> None:
        """Work on it."""
        self._processor.run(item)
        self._finished.put(item)

    def close(self, timeout_s: float) -> None:
        """Nothing is fixture."""


def emit(record: Record, context: Context) -> None:
    """A handler whose output names the record that it handled."""
    context.send("totals", b"%d@%d" % (record.partition, record.offset))


def refuse(*_: object) -> None:
    """Raise an error that the real object would not raise."""
    raise ProgressError("too long")


class Fixture:
    """A worker with a scripted reader and writer."""

    def __init__(self) -> None:
        self.reader = StoredOffsets({LOST: Checkpoint(0, ""), RETAINED: Checkpoint(0, "")})
        self.writer = ScriptedWriter()
        self.observer = RecordingObserver()
        common = self.common = shared()
        finished = FinishedItems()
        lanes, limits = Lanes(Ordering.PARTITION, 1), LimitsSection()
        assignment = Assignment(
            [route()], self.reader, FirstOffsets(self.reader), no_stops(self.observer), {"orders": lanes}
        )
        self.committer = Committer(
            common, self.writer, self.reader, self.observer, WriteLimits(100), stops=assignment.stops
        )
        slots = ImmediateSlots(Processor(as_handler(emit), {}, lambda: NOW, None), finished)
        self.worker = Worker(
            reader=self.reader,
            committer=self.committer,
            assignment=assignment,
            dispatchers={"orders": Dispatcher(lanes=lanes, slots=slots)},
            fetcher=Fetcher(self.reader, assignment, [lanes], limits, in_order=True),
            finished=finished,
            limits=limits,
            observer=self.observer,
        )
        self.worker.assigned([LOST, RETAINED])

    def handle(self) -> None:
        """Handle one record of each partition without writing the outcomes."""
        self.worker._buffer([record(0), record(0, partition=1)])
        self.worker._hand_out()
        self.worker._collect(0)
        assert self.committer.batch.size == 2

    def written(self) -> list[bytes | None]:
        """The values of the confirmed outputs."""
        return [copy.value for copies, _ in self.writer.confirmed for copy in copies]


def test_outcomes_of_a_lost_partition_are_not_written() -> None:
    """Its new owner handles those records again. The outcomes of the other partition are written."""
    fixture = Fixture()
    fixture.handle()
    fixture.worker.lost([LOST])
    fixture.worker._turn()
    fixture.worker._turn()
    assert fixture.written() == [b"1@0"]
    assert [set(checkpoints) for _, checkpoints in fixture.writer.confirmed] == [{RETAINED}]
    assert fixture.reader.sought == []


def test_a_worker_that_lost_all_partitions_writes_nothing() -> None:
    """The broker would not even refuse a transaction without offsets."""
    fixture = Fixture()
    fixture.handle()
    fixture.worker.lost([LOST, RETAINED])
    for _ in range(3):
        fixture.worker._turn()
    assert fixture.writer.tried == []
    assert fixture.observer.rebalances == ["assigned", "lost"]


def test_earlier_writes_remain() -> None:
    """Without outcomes that are not written, no partition is read again."""
    fixture = Fixture()
    fixture.handle()
    fixture.worker._writes.flush(0)
    fixture.worker.lost([LOST])
    fixture.worker._turn()
    assert fixture.written() == [b"0@0", b"1@0"]
    assert fixture.reader.sought == []


def test_no_write_follows_one_that_could_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would commit the records of the first one without their output: they would be lost."""
    fixture = Fixture()
    fixture.handle()
    with monkeypatch.context() as patched:
        patched.setattr(fixture.writer, "begin", refuse)
        with pytest.raises(ProgressError):
            fixture.worker._turn()
    fixture.worker._shut_down()
    assert fixture.writer.tried == []
    assert fixture.writer.closed


def test_partly_added_outcomes_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs without offsets would be repeated, offsets without outputs lost."""
    fixture = Fixture()
    fixture.worker._buffer([record(0), record(0, partition=1)])
    fixture.worker._hand_out()
    fixture.worker._collect(0)
    fixture.worker._buffer([record(1)])
    fixture.worker._hand_out()
    with monkeypatch.context() as patched:
        patched.setattr(fixture.committer.batch, "_touch", refuse)
        with pytest.raises(ProgressError):
            fixture.worker._collect(0)
    fixture.worker._shut_down()
    assert fixture.writer.tried == []


def test_a_stop_request_ends_a_wait_for_the_slots() -> None:
    """However long the wait is, because a signal can make it endless."""
    fixture = Fixture()
    Timer(0.1, fixture.worker.stop).start()
    fixture.worker._collect(3600)
    fixture.worker.run()
    assert fixture.writer.closed


@pytest.mark.parametrize("cause", list(RefusalCause))
def test_a_refusal_of_a_lost_partition_leaves_nothing(cause: RefusalCause) -> None:
    """Its next owner gets the same refusal. The write was under way when the partition was lost."""
    fixture = Fixture()
    fixture.handle()
    fixture.worker._writes.begin()
    refused = [RefusedRecord(index, "no", cause) for index in range(2)]
    fixture.writer.script.append(WriteRefusedError(refused, others_written=True))
    fixture.worker.lost([LOST])
    failures, halted = fixture.common.write_failures, fixture.worker.assignment.stops.unread
    assert {partition for partition, _ in failures} | halted == {RETAINED}
    assert all(LOST not in checkpoints for checkpoints in fixture.writer.finished)


def test_failures_of_a_lost_partition_are_dropped() -> None:
    """The refusal came first."""
    fixture = Fixture()
    fixture.handle()
    fixture.writer.script.append(
        WriteRefusedError([RefusedRecord(index, "too large", RefusalCause.TOO_LARGE) for index in range(2)])
    )
    fixture.worker._writes.flush(0)
    assert {partition for partition, _ in fixture.common.write_failures} == {LOST, RETAINED}
    fixture.worker.lost([LOST])
    assert {partition for partition, _ in fixture.common.write_failures} == {RETAINED}
