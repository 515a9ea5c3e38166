"""A partition whose position was deleted is halted alone, until its committed offset is moved."""

import pytest

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.control import Control
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock, RecordingObserver, StoredOffsets
from tests.unit.consumers.flow.test_first_offsets import Known
from tests.unit.consumers.records import record, route

ORDERS, OTHER = Partition("orders", 0), Partition("orders", 1)


class Fixture:
    """Two owned partitions; the position of the first, offset 3, was deleted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", self.clock)
        self.observer, self.health = RecordingObserver(), Health()
        self.health.joined()
        self.reader = StoredOffsets({ORDERS: Checkpoint(3, ""), OTHER: Checkpoint(0, "")})
        self.assignment = self.assigned(self.reader)
        self.assignment.open([ORDERS, OTHER])

    def assigned(
        self, reader: StoredOffsets, control: Control | None = None, source_start: str = "earliest"
    ) -> Assignment:
        """Partitions that report to the same probes and metrics."""
        stops = Stops(self.observer, self.health)
        first_offsets = FirstOffsets(reader, source_start, control)
        return Assignment([route()], reader, first_offsets, stops, {"orders": Lanes(Ordering.PARTITION, 1)})

    def halt(self) -> None:
        """Report the deletion."""
        self.assignment.lose(PositionDeletedError("orders", 0, 3, "out of range"))


@pytest.fixture
def fixture(monkeypatch: pytest.MonkeyPatch) -> Fixture:
    """See the class."""
    return Fixture(monkeypatch)


def test_one_partition_is_halted_and_reported_once(fixture: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    """A rewind makes the client report the same position again."""
    fixture.halt()
    fixture.halt()
    assert fixture.assignment.stops.unread == {ORDERS}
    [message] = caplog.messages
    assert "orders-0 is halted" in message
    assert "redelivery topology apply --accept-loss" in message
    assert len(fixture.observer.halt_causes) == 1
    assert "orders-0 is halted: its next offset 3 does not exist any more" in fixture.health.ready().reason
    assert fixture.health.ready().ok


def test_a_position_beyond_the_end_is_named_as_such(fixture: Fixture) -> None:
    """Nothing was deleted, and ``--accept-loss`` would do nothing: the operator resets the offset."""
    fixture.assignment.lose(PositionDeletedError("orders", 0, 30, "out of range", end=20))
    assert fixture.assignment.stops.unread == {ORDERS}
    problem = fixture.health.ready().reason
    assert "orders-0 is halted: its next offset 30 was beyond the end of the log, which is 20 now" in problem
    assert "kafka-consumer-groups.sh --reset-offsets --to-earliest" in problem
    assert "--accept-loss" not in problem
    fixture.assignment.report()
    assert dict(fixture.observer.halted_numbers) == {HaltLabel("orders", HaltCause.TRUNCATED): 1}


def test_the_committed_offset_is_read_after_growing_pauses(fixture: Fixture) -> None:
    """The partition can go on when it lies beyond the deleted one."""
    assert fixture.assignment.moved() == []
    fixture.halt()
    fixture.reader.commits[ORDERS] = Checkpoint(4, "")
    assert fixture.assignment.moved() == []
    fixture.clock.advance(1)
    assert fixture.assignment.moved() == [ORDERS]
    fixture.clock.advance(1)
    assert fixture.assignment.moved() == []
    fixture.clock.advance(1)
    assert fixture.assignment.moved() == [ORDERS]
    fixture.clock.advance(1000)
    fixture.assignment.close(ORDERS)
    assert fixture.assignment.moved() == []
    assert fixture.health.ready() == (True, "ready")


def test_an_expired_offset_halts_its_partition_until_there_is_one(fixture: Fixture) -> None:
    """It was known to the control topic when the partition was opened."""
    reader = StoredOffsets({OTHER: Checkpoint(0, "")}, ends={ORDERS: (3, 90)})
    known = Known(ControlState(exists=True, committed={ORDERS: 5}))
    assignment = fixture.assigned(reader, known)
    assignment.open([ORDERS, OTHER])
    assert assignment.stops.unread == {ORDERS}
    assert assignment.dirty() == []
    text = "orders-0: its committed offset has expired; up to 87 records would be handled again"
    assert fixture.observer.halt_causes == [text]
    assert "run: redelivery topology apply --accept-repeats" in fixture.health.ready().reason
    fixture.clock.advance(1)
    assert assignment.moved() == []
    reader.commits[ORDERS] = Checkpoint(0, "")
    fixture.clock.advance(2)
    assert assignment.moved() == [ORDERS]


def test_a_committed_offset_that_may_not_be_read_halts_its_partition(fixture: Fixture) -> None:
    """It goes on by itself, also if there is no committed offset."""
    reader = StoredOffsets({OTHER: Checkpoint(0, "")}, unreadable={"orders"})
    assignment = fixture.assigned(reader)
    assignment.open([ORDERS])
    assert assignment.stops.unread == {ORDERS}
    assert assignment.dirty() == []
    assert fixture.observer.halt_causes == [
        "orders-0: its committed offset may not be read; it goes on by itself when it may"
    ]
    assert "grant the right Read on topic orders (`redelivery topology acls`" in fixture.health.ready().reason
    fixture.clock.advance(1)
    assert assignment.moved() == []
    reader.unreadable.clear()
    fixture.clock.advance(2)
    assert assignment.moved() == [ORDERS]


def test_a_first_offset_that_is_unknown_halts_its_partition(fixture: Fixture) -> None:
    """It goes on when the control topic can be read. The client starts the partition anywhere meanwhile."""
    reader = StoredOffsets({OTHER: Checkpoint(0, "")}, ends={ORDERS: (3, 90)})
    control = Known(ControlState(exists=True, committed={ORDERS: 40}, saved={ORDERS: Checkpoint(40, "")}))
    control.unreadable = "no answer"
    assignment = fixture.assigned(reader, control)
    assignment.open([ORDERS, OTHER])
    assignment.lose(PositionDeletedError("orders", 0, 0, "out of range"))
    assert assignment.stops.unread == {ORDERS}
    assert assignment.dirty() == []
    text = "orders-0: it has no committed offset, and where it starts is unknown: no answer"
    assert fixture.observer.halt_causes == [text]
    assert "it goes on by itself when the control topic can be read" in fixture.health.ready().reason
    assignment.report()
    assert dict(fixture.observer.halted_numbers) == {HaltLabel("orders", HaltCause.CONTROL): 1}
    fixture.clock.advance(1)
    assert assignment.moved() == []
    control.unreadable = None
    fixture.clock.advance(2)
    assert assignment.moved() == [ORDERS]
    assignment.close(ORDERS)
    [assigned] = assignment.open([ORDERS])
    assert assigned.progress.next_offset == 40
    assert not assignment.stops.unread


@pytest.mark.parametrize("source_start", ["earliest", "latest"])
def test_a_partition_without_a_leader_and_without_a_committed_offset_halts_alone(
    fixture: Fixture, source_start: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a source that has grown, for example. It is asked again after growing pauses, and starts when it answers."""
    reader = StoredOffsets({OTHER: Checkpoint(0, "")}, ends={ORDERS: (3, 90)}, leaderless={ORDERS})
    assignment = fixture.assigned(reader, source_start=source_start)
    assignment.open([ORDERS, OTHER])
    assert assignment.stops.unread == {ORDERS}
    [(assigned, _)] = assignment.accept([record(0, partition=1)])
    assert assigned.partition == OTHER
    assert assignment.dirty() == []
    assignment.report()
    assert dict(fixture.observer.halted_numbers) == {HaltLabel("orders", HaltCause.OFFLINE): 1}
    assert "orders-0 is halted: it has no committed offset, and its leader" in fixture.health.ready().reason
    for pause_s in (1, 2, 4):
        fixture.clock.advance(pause_s - 0.5)
        reader.asked.clear()
        assert (assignment.moved(), reader.asked) == ([], [])
        fixture.clock.advance(0.5)
        assert (assignment.moved(), reader.asked) == ([], [ORDERS])
    assert len(caplog.messages) == 1, "it is said once"
    reader.leaderless.clear()
    fixture.clock.advance(30)
    assert assignment.moved() == [ORDERS]
    assignment.close(ORDERS)
    [assigned] = assignment.open([ORDERS])
    assert assigned.progress.next_offset == (3 if source_start == "earliest" else 90)
    assert not assignment.stops.unread


def test_metadata_of_another_tool_halts_its_partition_until_the_commit_has_changed(fixture: Fixture) -> None:
    """The new commit may have the same offset, or a lower one."""
    foreign = Checkpoint(7, "hello")
    reader = StoredOffsets({ORDERS: foreign, OTHER: Checkpoint(0, "")})
    assignment = fixture.assigned(reader)
    assignment.open([ORDERS, OTHER])
    assert "orders-0 is halted: the commit at offset 7 has metadata" in fixture.health.ready().reason
    assignment.report()
    assert dict(fixture.observer.halted_numbers) == {HaltLabel("orders", HaltCause.METADATA): 1}
    assignment.lose(PositionDeletedError("orders", 0, 7, "out of range"))
    for changed in (Checkpoint(7, ""), Checkpoint(6, ""), Checkpoint(8, "hello"), None):
        fixture.clock.advance(60)
        assert assignment.moved() == []
        if changed is None:
            del reader.commits[ORDERS]
        else:
            reader.commits[ORDERS] = changed
        fixture.clock.advance(60)
        assert assignment.moved() == [ORDERS]
        reader.commits[ORDERS] = foreign


def test_a_saved_position_with_metadata_of_another_program_halts_once(fixture: Fixture) -> None:
    """Nothing is committed, so a commit is what changes."""
    control = Known(ControlState(exists=True, committed={ORDERS: 7}, saved={ORDERS: Checkpoint(7, "hello")}))
    assignment = fixture.assigned(fixture.reader, control)
    del fixture.reader.commits[ORDERS]
    assignment.open([ORDERS])
    fixture.clock.advance(60)
    assert assignment.moved() == []
    fixture.reader.commits[ORDERS] = Checkpoint(0, "")
    fixture.clock.advance(60)
    assert assignment.moved() == [ORDERS]


def test_an_own_commit_is_no_move(fixture: Fixture) -> None:
    """What was fetched before the deletion is still committed."""
    fixture.halt()
    fixture.clock.advance(1)
    assert fixture.assignment.moved() == []


def test_a_partition_with_unfinished_records_does_not_go_on(fixture: Fixture) -> None:
    """They would be handled without effect."""
    [(assigned, _)] = fixture.assignment.accept([record(3)])
    fixture.halt()
    fixture.reader.commits[ORDERS] = Checkpoint(9, "")
    fixture.clock.advance(1)
    assert fixture.assignment.moved() == []
    assigned.progress.complete([3])
    fixture.clock.advance(60)
    assert fixture.assignment.moved() == [ORDERS]
