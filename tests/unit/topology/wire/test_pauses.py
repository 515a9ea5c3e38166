"""The records of pauses in the control topic."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.wire.control import ControlRecord, control_state, first_offset_record
from kafka_redelivery.topology.wire.pauses import (
    Applied,
    Pause,
    PausedTopics,
    Pauses,
    PauseScope,
    PauseTarget,
    ProcessName,
    Reported,
    fault_record,
    pause_record,
    process_record,
    tombstones,
)

NOW = 1_700_000_000_000
GROUP = PauseTarget(PauseScope.GROUP)
ORDERS = PauseTarget(PauseScope.SOURCE, "orders")
TIER = PauseTarget(PauseScope.TIER, "g.retry.2s")
W1 = ProcessName("worker", "w1")


def state_of(records: list[ControlRecord]) -> Pauses:
    """Return the state after these records, the first of which has offset 0."""
    found = Pauses()
    for offset, (key, value) in enumerate(records):
        found = found.with_record(key, value, offset)
    return found


def paused(state: Pauses, now_ms: int = NOW) -> PausedTopics:
    """Return what is paused."""
    return state.topics(now_ms, lambda source: f"g.ready.{source}")


def test_the_newest_record_of_each_target_counts() -> None:
    """A second pause gives a new end, a tombstone ends it, and each change has an offset that processes note."""
    first = [pause_record(ORDERS, None, NOW), pause_record(TIER, NOW + 5, NOW)]
    assert state_of(first).holding(NOW) == [Pause(ORDERS, NOW, None), Pause(TIER, NOW, NOW + 5)]
    assert state_of(first).end == 2
    [why] = state_of([pause_record(ORDERS, None, NOW, "ann", "the bank is away")]).holding(NOW)
    assert (why.by, why.note) == ("ann", "the bank is away")
    again = [*first, pause_record(ORDERS, NOW + 9, NOW + 1), *tombstones([TIER])]
    assert state_of(again).holding(NOW) == [Pause(ORDERS, NOW + 1, NOW + 9)]
    assert state_of(again).end == 4


def test_a_pause_ends_by_itself() -> None:
    """At its end, not a millisecond later."""
    state = state_of([pause_record(GROUP, NOW + 5, NOW)])
    assert paused(state, NOW + 4).group
    assert not paused(state, NOW + 5)
    assert paused(state, NOW + 5).end == 1, "processes have still applied it"


def test_a_source_is_paused_with_its_ready_topic_and_a_group_with_everything() -> None:
    """Tiers of a paused source go on: other sources share them."""
    state = paused(state_of([pause_record(ORDERS, None, NOW)]))
    assert [topic for topic in ("orders", "g.ready.orders", "g.retry.2s", "other") if state.covers(topic)] == [
        "orders",
        "g.ready.orders",
    ]
    assert not paused(state_of([pause_record(TIER, None, NOW)])).covers("orders")
    assert all(map(paused(state_of([pause_record(GROUP, None, NOW)])).covers, ["orders", "g.retry.2s"]))


def test_what_processes_have_applied() -> None:
    """Their records move no offset that others would have to apply."""
    state = state_of([pause_record(GROUP, None, NOW), process_record(W1, 1, NOW + 3)])
    assert (state.processes, state.end) == ({W1: Applied(1, NOW + 3)}, 1)
    assert state_of([process_record(W1, 1, NOW), *tombstones([W1])]) == Pauses()


def test_other_records_of_the_topic_change_nothing() -> None:
    """Those of this version and of later ones; and older versions ignore pauses."""
    others = [
        first_offset_record("orders", 0, 5, NOW),
        ControlRecord(b"pause/planet/mars", b"{}"),
        ControlRecord(b"x", None),
    ]
    others += [ControlRecord(b"pause/orders", b"x"), ControlRecord(b"\xff", b""), ControlRecord(b"pause/group/x", b"")]
    assert state_of(others) == Pauses()
    assert control_state([pause_record(ORDERS, None, NOW), process_record(W1, 1, NOW)]) == control_state([])


@given(st.binary())
def test_a_damaged_pause_is_an_error_that_names_its_key(value: bytes) -> None:
    """The last readable record of the key holds; others go on, and a tombstone repairs it."""
    try:
        fields = json.loads(value)
        valid = isinstance(fields, dict) and {"untilMs", "firstSeenMs"} <= fields.keys()
    except (ValueError, RecursionError):
        valid = False
    if not valid:
        known = state_of([pause_record(ORDERS, None, NOW)])
        damaged = known.with_record(b"pause/source/orders", value, 1)
        assert damaged.pauses == known.pauses
        with pytest.raises(ControlRecordError, match="pause/source/orders"):
            damaged.readable()
        assert damaged.with_record(*pause_record(TIER, None, NOW), 2).pauses.keys() == {ORDERS, TIER}
        repaired = damaged.with_record(*tombstones([ORDERS])[0], 2)
        assert repaired.readable() == Pauses(end=3)


@pytest.mark.parametrize("value", [b"?", b"[]", b'{"text": "halted", "firstSeenMs": 1}'])
def test_a_damaged_report_keeps_no_process_from_starting(value: bytes) -> None:
    """It pauses nothing, so it counts as withdrawn."""
    known = state_of([fault_record(W1, Reported("halted", NOW, NOW + 1)), pause_record(ORDERS, None, NOW)])
    damaged = known.with_record(b"fault/worker/w1", value, 2).readable()
    assert (damaged.faults, damaged.pauses) == ({}, known.pauses)
