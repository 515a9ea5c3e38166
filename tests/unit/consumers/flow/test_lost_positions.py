"""A partition whose position was deleted is halted alone, until its committed offset is moved."""

import pytest

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.lost_positions import LostPositions
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel
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
        monkeypatch.setattr("kafka_redelivery.consumers.flow.lost_positions.monotonic_s", self.clock)
        self.reader = StoredOffsets({ORDERS: Checkpoint(3, ""), OTHER: Checkpoint(0, "")})
        self.assignment = Assignment([route()], self.reader, FirstOffsets(self.reader))
        self.assignment.open([ORDERS, OTHER])
        self.observer, self.health = RecordingObserver(), Health()
        self.health.joined()
        self.positions = LostPositions(self.reader, self.assignment, self.observer, self.health)

    def halt(self) -> None:
        """Report the deletion."""
        self.positions.halt(PositionDeletedError("orders", 0, 3, "out of range"))


@pytest.fixture
def fixture(monkeypatch: pytest.MonkeyPatch) -> Fixture:
    """See the class."""
    return Fixture(monkeypatch)


def test_one_partition_is_halted_and_reported_once(fixture: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    """A rewind makes the client report the same position again."""
    fixture.halt()
    fixture.halt()
    assert fixture.assignment.halted == {ORDERS}
    [message] = caplog.messages
    assert "orders-0 is halted" in message
    assert "redelivery topology apply --accept-loss" in message
    assert len(fixture.observer.halt_causes) == 1
    assert "orders-0 is halted: its next offset 3 does not exist any more" in fixture.health.ready().reason
    assert fixture.health.ready().ok


def test_a_position_beyond_the_end_is_named_as_such(fixture: Fixture) -> None:
    """Nothing was deleted, and ``--accept-loss`` would do nothing: the operator resets the offset."""
    fixture.positions.halt(PositionDeletedError("orders", 0, 30, "out of range", end=20))
    assert fixture.assignment.halted == {ORDERS}
    problem = fixture.health.ready().reason
    assert "orders-0 is halted: its next offset 30 was beyond the end of the log, which is 20 now" in problem
    assert "kafka-consumer-groups.sh --reset-offsets --to-earliest" in problem
    assert "--accept-loss" not in problem
    fixture.assignment.report(fixture.observer, fixture.health)
    assert dict(fixture.observer.halted_numbers) == {HaltLabel("orders", "truncated"): 1}


def test_the_committed_offset_is_read_after_growing_pauses(fixture: Fixture) -> None:
    """The partition can go on when it lies beyond the deleted one."""
    assert fixture.positions.moved() == []
    fixture.halt()
    fixture.reader.commits[ORDERS] = Checkpoint(4, "")
    assert fixture.positions.moved() == []
    fixture.clock.advance(1)
    assert fixture.positions.moved() == [ORDERS]
    fixture.clock.advance(1)
    assert fixture.positions.moved() == []
    fixture.clock.advance(1)
    assert fixture.positions.moved() == [ORDERS]
    fixture.clock.advance(1000)
    fixture.positions.forget(ORDERS)
    assert fixture.positions.moved() == []
    assert fixture.health.ready() == (True, "ready")


def test_an_expired_offset_halts_its_partition_until_there_is_one(fixture: Fixture) -> None:
    """It was known to the control topic when the partition was opened."""
    reader = StoredOffsets({OTHER: Checkpoint(0, "")}, ends={ORDERS: (3, 90)})
    known = Known(ControlState(exists=True, committed={ORDERS: 5}))
    assignment = Assignment([route()], reader, FirstOffsets(reader, control=known))
    positions = LostPositions(reader, assignment, fixture.observer, fixture.health)
    assignment.open([ORDERS, OTHER])
    positions.halt_opened()
    positions.halt_opened()
    assert assignment.halted == {ORDERS}
    assert assignment.dirty() == []
    text = "orders-0: its committed offset has expired; up to 87 records would be handled again"
    assert fixture.observer.halt_causes == [text]
    assert "run: redelivery topology apply --accept-repeats" in fixture.health.ready().reason
    fixture.clock.advance(1)
    assert positions.moved() == []
    reader.commits[ORDERS] = Checkpoint(0, "")
    fixture.clock.advance(2)
    assert positions.moved() == [ORDERS]


def test_a_committed_offset_that_may_not_be_read_halts_its_partition(fixture: Fixture) -> None:
    """It goes on by itself, also if there is no committed offset."""
    reader = StoredOffsets({OTHER: Checkpoint(0, "")}, unreadable={"orders"})
    assignment = Assignment([route()], reader, FirstOffsets(reader))
    positions = LostPositions(reader, assignment, fixture.observer, fixture.health)
    assignment.open([ORDERS])
    positions.halt_opened()
    assert assignment.halted == {ORDERS}
    assert assignment.dirty() == []
    assert fixture.observer.halt_causes == [
        "orders-0: its committed offset may not be read; it goes on by itself when it may"
    ]
    assert "grant the right Read on topic orders (`redelivery topology acls`" in fixture.health.ready().reason
    fixture.clock.advance(1)
    assert positions.moved() == []
    reader.unreadable.clear()
    fixture.clock.advance(2)
    assert positions.moved() == [ORDERS]


def test_a_first_offset_that_is_unknown_halts_its_partition(fixture: Fixture) -> None:
    """It goes on when the control topic can be read. The client starts the partition anywhere meanwhile."""
    reader = StoredOffsets({OTHER: Checkpoint(0, "")}, ends={ORDERS: (3, 90)})
    control = Known(ControlState(exists=True, committed={ORDERS: 40}, saved={ORDERS: Checkpoint(40, "")}))
    control.unreadable = "no answer"
    assignment = Assignment([route()], reader, FirstOffsets(reader, control=control))
    positions = LostPositions(reader, assignment, fixture.observer, fixture.health)
    assignment.open([ORDERS, OTHER])
    positions.halt_opened()
    positions.halt(PositionDeletedError("orders", 0, 0, "out of range"))
    assert assignment.halted == {ORDERS}
    assert assignment.dirty() == []
    text = "orders-0: it has no committed offset, and where it starts is unknown: no answer"
    assert fixture.observer.halt_causes == [text]
    assert "it goes on by itself when the control topic can be read" in fixture.health.ready().reason
    assignment.report(fixture.observer, fixture.health)
    assert dict(fixture.observer.halted_numbers) == {HaltLabel("orders", "control"): 1}
    fixture.clock.advance(1)
    assert positions.moved() == []
    control.unreadable = None
    fixture.clock.advance(2)
    assert positions.moved() == [ORDERS]
    assignment.close(ORDERS)
    [assigned] = assignment.open([ORDERS])
    assert assigned.progress.next_offset == 40
    assert not assignment.halted


def test_metadata_of_another_tool_halts_its_partition_until_the_commit_has_changed(fixture: Fixture) -> None:
    """The new commit may have the same offset, or a lower one."""
    foreign = Checkpoint(7, "hello")
    reader = StoredOffsets({ORDERS: foreign, OTHER: Checkpoint(0, "")})
    assignment = Assignment([route()], reader, FirstOffsets(reader))
    positions = LostPositions(reader, assignment, fixture.observer, fixture.health)
    assignment.open([ORDERS, OTHER])
    positions.halt_opened()
    assert "orders-0 is halted: the commit at offset 7 has metadata" in fixture.health.ready().reason
    assignment.report(fixture.observer, fixture.health)
    assert dict(fixture.observer.halted_numbers) == {HaltLabel("orders", "metadata"): 1}
    positions.halt(PositionDeletedError("orders", 0, 7, "out of range"))
    for changed in (Checkpoint(7, ""), Checkpoint(6, ""), Checkpoint(8, "hello"), None):
        fixture.clock.advance(60)
        assert positions.moved() == []
        if changed is None:
            del reader.commits[ORDERS]
        else:
            reader.commits[ORDERS] = changed
        fixture.clock.advance(60)
        assert positions.moved() == [ORDERS]
        reader.commits[ORDERS] = foreign


def test_a_saved_position_with_metadata_of_another_program_halts_once(fixture: Fixture) -> None:
    """Nothing is committed, so a commit is what changes."""
    control = Known(ControlState(exists=True, committed={ORDERS: 7}, saved={ORDERS: Checkpoint(7, "hello")}))
    assignment = Assignment([route()], fixture.reader, FirstOffsets(fixture.reader, control=control))
    positions = LostPositions(fixture.reader, assignment, fixture.observer, fixture.health)
    del fixture.reader.commits[ORDERS]
    assignment.open([ORDERS])
    positions.halt_opened()
    fixture.clock.advance(60)
    assert positions.moved() == []
    fixture.reader.commits[ORDERS] = Checkpoint(0, "")
    fixture.clock.advance(60)
    assert positions.moved() == [ORDERS]


def test_an_own_commit_is_no_move(fixture: Fixture) -> None:
    """What was fetched before the deletion is still committed."""
    fixture.halt()
    fixture.clock.advance(1)
    assert fixture.positions.moved() == []


def test_a_partition_with_unfinished_records_does_not_go_on(fixture: Fixture) -> None:
    """They would be handled without effect."""
    [(assigned, _)] = fixture.assignment.accept([record(3)])
    fixture.halt()
    fixture.reader.commits[ORDERS] = Checkpoint(9, "")
    fixture.clock.advance(1)
    assert fixture.positions.moved() == []
    assigned.progress.complete([3])
    fixture.clock.advance(60)
    assert fixture.positions.moved() == [ORDERS]
