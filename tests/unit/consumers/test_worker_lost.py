"""A worker that was thought dead and comes back writes nothing of what is somebody else's by now."""

from queue import SimpleQueue
from threading import Timer

import pytest

from consumers.assignment import Assignment
from consumers.committer import Committer
from consumers.handler import as_handler
from consumers.lanes import Lanes
from consumers.parts import Parts
from consumers.processor import Processor
from consumers.record import Context, Record
from consumers.unit import Unit
from consumers.worker import Worker
from tests.unit.consumers.batches import shared
from tests.unit.consumers.doubles import Noting, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import NOW, record, route
from topology.errors import ProgressError
from topology.progress import Checkpoint
from topology.settings import HandlerSection, LimitsSection, Ordering
from transport.protocols import Partition

LOST = Partition("orders", 0)
KEPT = Partition("orders", 1)


class AtOnce:
    """Slots that have worked on a unit when it is handed in."""

    capacity = 1

    def __init__(self, processor: Processor, done: SimpleQueue[Unit | None]) -> None:
        self._processor = processor
        self._done = done

    def submit(self, unit: Unit) -> None:
        """Work on it."""
        self._processor.run(unit)
        self._done.put(unit)

    def close(self, timeout_s: float) -> None:
        """Nothing is running."""


def emit(record: Record, context: Context) -> None:
    """A handler whose outputs tell what was handled."""
    context.send("totals", b"%d@%d" % (record.partition, record.offset))


def refusing(*_: object) -> None:
    """What a writer never does."""
    raise ProgressError("too long")


class Running:
    """A worker between its reader and its writer, turned by hand."""

    def __init__(self) -> None:
        self.reader = StoredOffsets({LOST: Checkpoint(0, ""), KEPT: Checkpoint(0, "")})
        self.writer = ScriptedWriter()
        self.observer = Noting()
        common = shared()
        done: SimpleQueue[Unit | None] = SimpleQueue()
        self.committer = Committer(common, self.writer, self.observer, 100)
        self.worker = Worker(
            Parts(
                reader=self.reader,
                committer=self.committer,
                assignment=Assignment([route()], "earliest", self.reader),
                lanes=Lanes(Ordering.PARTITION, 1),
                slots=AtOnce(Processor(as_handler(emit), {}, lambda: NOW, None), done),
                done=done,
                verdicts=common.verdicts,
                limits=LimitsSection(),
                handler=HandlerSection(callable="tests:emit"),
                observer=self.observer,
            )
        )
        self.worker.assigned([LOST, KEPT])

    def handle(self) -> None:
        """Handle a record of each partition, and write nothing yet."""
        self.worker._take([record(0), record(0, partition=1)])
        self.worker._hand_out()
        self.worker._collect(0)
        assert self.committer.batch.size == 2

    def written(self) -> list[bytes | None]:
        """What was emitted for good."""
        return [copy.value for copies, _ in self.writer.confirmed for copy in copies]


def test_outcomes_of_a_lost_partition_are_not_written() -> None:
    """Its new owner handles those records again; the partition that stayed is read again from its commit."""
    running = Running()
    running.handle()
    running.worker.lost([LOST])
    running.worker._turn()
    assert running.written() == []
    assert running.reader.sought == [(KEPT, 0)]

    running.reader.fetches = [[record(0, partition=1)]]
    for _ in range(3):
        running.worker._turn()
    assert running.written() == [b"1@0"]
    assert [set(checkpoints) for _, checkpoints in running.writer.confirmed] == [{KEPT}]


def test_a_worker_that_lost_everything_writes_nothing() -> None:
    """A transaction without offsets would not even be refused."""
    running = Running()
    running.handle()
    running.worker.lost([LOST, KEPT])
    for _ in range(3):
        running.worker._turn()
    assert running.writer.tried == []
    assert running.observer.rebalances == ["assigned", "lost"]


def test_what_was_written_before_stays() -> None:
    """Nothing is read again where nothing is outstanding."""
    running = Running()
    running.handle()
    running.worker._write()
    running.worker.lost([LOST])
    running.worker._turn()
    assert running.written() == [b"0@0", b"1@0"]
    assert running.reader.sought == []


def test_a_write_that_cannot_begin_is_not_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one would commit what the first should have written: its records would be lost."""
    running = Running()
    running.handle()
    with monkeypatch.context() as patched:
        patched.setattr(running.writer, "begin", refusing)
        with pytest.raises(ProgressError):
            running.worker._turn()
    running.worker._shut_down()
    assert running.writer.tried == []
    assert running.writer.closed


def test_outcomes_that_are_half_taken_over_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their copies without their offsets would be doubled, their offsets without their copies lost."""
    running = Running()
    running.worker._take([record(0), record(0, partition=1)])
    running.worker._hand_out()
    running.worker._collect(0)
    running.worker._take([record(1)])
    running.worker._hand_out()
    with monkeypatch.context() as patched:
        patched.setattr(running.committer.batch, "_touch", refusing)
        with pytest.raises(ProgressError):
            running.worker._collect(0)
    running.worker._shut_down()
    assert running.writer.tried == []


def test_being_told_to_stop_ends_a_wait_for_the_slots() -> None:
    """However long that wait is: a signal can turn it into one without an end."""
    running = Running()
    Timer(0.1, running.worker.stop).start()
    running.worker._collect(3600)
    running.worker.run()
    assert running.writer.closed
