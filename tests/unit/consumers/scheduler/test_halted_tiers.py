"""A partition of a tier whose offset has expired or was deleted halts alone, until an operator has decided."""

import pytest

from kafka_redelivery.consumers.flow.first_offsets import KEEP_EVERY_S, FirstOffsets
from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import PositionDeletedError, WriteAbortedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.flow.test_first_offsets import Known
from tests.unit.consumers.records import NOW
from tests.unit.consumers.scheduler.test_scheduler import MIXED, QUICK, SLOW, Running, due

CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time at which halted partitions are looked at again."""
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", CLOCK)


def look(running: Running) -> None:
    """The scheduler looks whether halted partitions can go on, which it does after pauses of up to 30 s."""
    CLOCK.advance(30)
    running.scheduler._assigned.resume_moved(running.scheduler._engine.writing)


def test_idle_tiers_are_committed_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise their offsets would expire earlier than those of the others."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.scheduler.assigned_tiers.monotonic_s", clock)
    running = Running()
    running.turn()
    assert running.writer.tried == []
    clock.advance(KEEP_EVERY_S + 1)
    running.turn()
    assert running.writer.tried == [([], dict.fromkeys((QUICK, SLOW, MIXED), Checkpoint(0, "")))]
    running.turn()
    assert len(running.writer.tried) == 1


def test_an_expired_tier_is_halted_until_it_has_an_offset() -> None:
    """The others are released. The partition goes on where an operator has set it."""
    running = Running()
    known = Known(ControlState(exists=True, committed={QUICK: 4}))
    running.scheduler._assigned._first_offsets = FirstOffsets(running.reader, control=known)
    del running.reader.commits[QUICK]
    running.reader.ends[QUICK] = (3, 9)
    running.scheduler.revoked([QUICK])
    running.scheduler.assigned([QUICK])
    running.turn([*due(QUICK, 3), *due(SLOW, 0)])
    assert running.values() == [[b"0"]]
    assert QUICK in running.reader.paused
    assert running.observer.halt_causes == [
        "billing.retry.1s-0: its committed offset has expired; up to 6 records would be released again"
    ]
    look(running)
    assert running.reader.sought == []
    running.reader.commits[QUICK] = Checkpoint(5, "")
    look(running)
    assert running.reader.sought == [(QUICK, 5)]
    running.turn(due(QUICK, 5))
    assert running.values()[1:] == [[b"5"]]
    assert QUICK not in running.reader.paused


@pytest.mark.parametrize("missing", ["control topic", "leader"])
def test_a_tier_whose_first_offset_is_unknown_halts_alone(missing: str) -> None:
    """It starts when the control topic can be read, and its leader answers."""
    running = Running()
    control = Known(ControlState(exists=True))
    if missing == "leader":
        running.reader.leaderless = {QUICK}
    else:
        control.unreadable = "no answer"
    running.scheduler._assigned._first_offsets = FirstOffsets(running.reader, control=control)
    del running.reader.commits[QUICK]
    running.reader.ends[QUICK] = (3, 9)
    running.scheduler.revoked([QUICK, SLOW])
    assert running.scheduler.assigned([QUICK, SLOW])[SLOW] == 0
    running.turn([*due(QUICK, 3), *due(SLOW, 0)])
    assert running.values() == [[b"0"]]
    assert running.reader.paused == {QUICK}
    look(running)
    assert running.reader.sought == []
    control.unreadable = None
    running.reader.leaderless.clear()
    look(running)
    assert running.reader.sought == [(QUICK, 3)]
    running.turn(due(QUICK, 3))
    assert running.values()[1:] == [[], [b"3"]], "its start offset is committed first"
    assert running.reader.paused == set()


def test_a_tier_whose_committed_offset_may_not_be_read_halts_alone() -> None:
    """After an aborted write, for example. It shows everywhere, and goes on by itself when the right is back."""
    running = Running(WriteAbortedError("no"))
    running.health.joined()
    running.reader.commits[QUICK] = Checkpoint(3, "")
    running.reader.unreadable.add(QUICK.topic)
    running.turn([*due(QUICK, 3, due_ms=NOW + 500), *due(SLOW, 0)])
    running.turn(due(SLOW, 0))
    assert running.values() == [[b"0"]]
    assert running.reader.paused == {QUICK}
    assert running.observer.halt_causes == [
        "billing.retry.1s-0: its committed offset may not be read; it goes on by itself when it may"
    ]
    assert "grant the right Read on topic billing.retry.1s" in running.health.ready().reason
    running.scheduler._reported_s = 0.0
    running.turn()
    assert running.observer.halted_numbers == {HaltLabel(QUICK.topic, HaltCause.FORBIDDEN): 1}
    look(running)
    assert (QUICK, 3) not in running.reader.sought
    running.reader.unreadable.clear()
    look(running)
    assert running.reader.sought[-1] == (QUICK, 3)
    running.turn(due(QUICK, 3))
    assert running.values()[1:] == [[b"3"]]
    assert running.reader.paused == set()
    assert running.health.ready() == (True, "ready")


def test_a_tier_whose_topic_may_not_be_read_either_counts_once() -> None:
    """Its committed offset may not be read, because its topic may not be."""
    running = Running(WriteAbortedError("no"))
    running.reader.unreadable.add(QUICK.topic)
    running.reader.forbid([QUICK.topic])
    running.turn(due(SLOW, 0))
    running.scheduler._reported_s = 0.0
    running.turn()
    assert running.observer.halted_numbers == {HaltLabel(QUICK.topic, HaltCause.FORBIDDEN): 1}


def test_a_tier_with_metadata_of_another_tool_halts_alone() -> None:
    """It goes on when the commit has changed, also at the same offset."""
    running = Running()
    running.reader.commits[QUICK] = Checkpoint(3, "hello")
    running.scheduler.revoked([QUICK])
    assert running.scheduler.assigned([QUICK]) == {QUICK: 3}
    running.turn([*due(QUICK, 3), *due(SLOW, 0)])
    assert running.values() == [[b"0"]]
    assert running.reader.paused == {QUICK}
    [cause] = running.observer.halt_causes
    assert "billing.retry.1s-0: the commit at offset 3 has metadata that is damaged or was not written by" in cause
    look(running)
    assert running.reader.sought == []
    running.reader.commits[QUICK] = Checkpoint(3, "")
    look(running)
    assert running.reader.sought == [(QUICK, 3)]
    running.turn(due(QUICK, 3))
    assert running.values()[1:] == [[b"3"]]


def test_an_offset_that_expires_between_two_writes_halts_the_tier() -> None:
    """What was fetched is dropped: its commit would pass the records of the aborted write, which would be lost."""
    running = Running(WriteAbortedError("no"))
    known = Known(ControlState(exists=True, committed={QUICK: 0}))
    running.scheduler._assigned._first_offsets = FirstOffsets(running.reader, control=known)
    running.reader.ends[QUICK] = (0, 9)
    running.writer.slow = True
    running.turn([*due(QUICK, 0), *due(QUICK, 1, due_ms=NOW + 500)])
    del running.reader.commits[QUICK]
    running.writer.slow = False
    running.turn()
    running.now_ms += 500
    running.turn(due(SLOW, 0))
    assert [checkpoints for _, checkpoints in running.writer.confirmed] == [{SLOW: Checkpoint(1, "")}]
    assert running.reader.paused == {QUICK}
    assert running.scheduler.share().has(0)
    running.reader.commits[QUICK] = Checkpoint(0, "")
    look(running)
    running.turn(due(QUICK, 0, 1))
    assert running.values()[1:] == [[b"0", b"1"]]


def delete(running: Running, offset: int, end: int | None = None, partition: Partition = QUICK) -> None:
    """Let the reader find that the next offset of a partition does not exist."""
    running.reader.deleted = [PositionDeletedError(*partition, offset, "out of range", end=end)]
    running.turn()


def test_a_tier_whose_next_offset_was_deleted_halts_alone() -> None:
    """What was fetched before is released and committed, and so are other tiers. It shows everywhere, once."""
    running = Running()
    running.health.joined()
    running.turn(due(QUICK, 0, 1, due_ms=NOW + 500))
    delete(running, 2)
    delete(running, 2)
    running.turn(due(SLOW, 0))
    assert running.reader.paused == {QUICK}
    assert running.values() == [[b"0"]]
    running.now_ms += 500
    running.turn()
    assert running.writer.confirmed[1][1] == {QUICK: Checkpoint(2, "")}
    assert running.values()[1:] == [[b"0", b"1"]]
    assert running.observer.halt_causes == [
        "billing.retry.1s-0: its next offset 2 does not exist any more; whether records were lost is unknown"
    ]
    ready = running.health.ready()
    assert ready.ok
    assert "billing.retry.1s-0 is halted: its next offset 2 does not exist any more" in ready.reason
    assert "run: redelivery topology apply --accept-loss" in ready.reason


def test_a_halted_tier_goes_on_behind_the_deleted_offset() -> None:
    """From the offset to which an operator has moved it, once nothing is left that was fetched before."""
    running = Running()
    running.health.joined()
    running.turn(due(QUICK, 0, due_ms=NOW + 500))
    delete(running, 1)
    running.reader.commits[QUICK] = Checkpoint(9, "")
    look(running)
    assert running.reader.sought == []
    running.now_ms += 500
    running.writer.slow = True
    running.turn()
    assert running.writer.busy
    look(running)
    assert running.reader.sought == []
    running.writer.slow = False
    running.turn()
    running.reader.commits[QUICK] = Checkpoint(1, "")  # an own commit is no move
    look(running)
    assert running.reader.sought == []
    running.reader.commits[QUICK] = Checkpoint(9, "")
    look(running)
    assert running.reader.sought == [(QUICK, 9)]
    running.turn(due(QUICK, 9))
    assert running.values() == [[b"0"], [b"9"]]
    assert running.reader.paused == set()
    assert running.health.ready() == (True, "ready")


@pytest.mark.parametrize(("end", "cause"), [(None, "deleted"), (3, "truncated")])
def test_the_metric_names_the_cause(end: int | None, cause: str) -> None:
    """A position beyond the end of the log was not deleted."""
    running = Running()
    delete(running, 7, end)
    running.scheduler._reported_s = 0.0
    running.turn()
    assert running.observer.halted_numbers == {HaltLabel(QUICK.topic, HaltCause(cause)): 1}


def test_an_aborted_write_ends_no_halt() -> None:
    """All partitions are rewound."""
    running = Running(WriteAbortedError("no"))
    delete(running, 7)
    running.turn(due(SLOW, 0))
    assert (QUICK, 0) in running.reader.sought
    assert running.reader.paused == {QUICK}


def test_a_halted_tier_that_is_given_up_is_forgotten() -> None:
    """Its next owner finds the deleted offset itself. An error about the partition may come later."""
    running = Running()
    running.health.joined()
    delete(running, 7)
    running.scheduler.revoked([QUICK])
    assert running.health.ready() == (True, "ready")
    delete(running, 7)
    assert running.health.ready() == (True, "ready")


def test_the_offset_of_a_halted_tier_is_not_committed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could replace the one that an operator has set a moment ago."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.scheduler.assigned_tiers.monotonic_s", clock)
    running = Running()
    delete(running, 7)
    clock.advance(KEEP_EVERY_S + 1)
    running.turn()
    assert running.writer.tried == [([], dict.fromkeys((SLOW, MIXED), Checkpoint(0, "")))]
