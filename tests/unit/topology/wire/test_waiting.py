"""The records of what operators want done with waiting records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.wire.control import ControlRecord, control_state
from kafka_redelivery.topology.wire.pauses import Pauses
from kafka_redelivery.topology.wire.waiting import (
    MOST_OFFSETS,
    RequestKey,
    WaitingAction,
    WaitingDone,
    WaitingRequest,
    done_record,
    read_request,
    request_record,
    withdrawn_requests,
)
from tests.unit.topology.wire.test_pauses import NOW, state_of

KEY = RequestKey("a1", "billing.retry.2s", 3)


def wanted(**fields: object) -> WaitingRequest:
    """A request to deliver two records now, with other fields."""
    base: dict[str, object] = {
        "key": KEY,
        "action": WaitingAction.DELIVER_NOW,
        "offsets": (7, 9),
        "until_ms": NOW + 5,
        "by": "ann",
        "note": "the bank is back",
        "mark": "markofatopic",
        "at_ms": NOW,
        "place": 0,
    }
    return WaitingRequest(**base | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "request_of",
    [
        wanted(),
        wanted(action=WaitingAction.DEAD_LETTER, offsets=(0,), note="", mark=""),
        wanted(action=WaitingAction.DELAY, due_ms=NOW + 9),
        wanted(offsets=(), below=12),
    ],
    ids=lambda each: str(each.action),
)
def test_a_request_reads_back(request_of: WaitingRequest) -> None:
    """With its place in the topic, which gives the order."""
    record = request_record(request_of, NOW)
    assert state_of([record]).open_requests() == [request_of]
    assert state_of([record, *withdrawn_requests([KEY])]) == Pauses()


@given(st.sets(st.integers(0, 2**62), min_size=1, max_size=50))
def test_any_offsets_read_back(offsets: set[int]) -> None:
    """As their distances, which are short."""
    record = request_record(wanted(offsets=tuple(sorted(offsets))), NOW)
    found = read_request(KEY, record.value, 0)
    assert found is not None
    assert found.offsets == tuple(sorted(offsets))


def test_the_largest_request_is_small() -> None:
    """Each process reads the whole control topic when it starts."""
    offsets = tuple(range(2**40, 2**40 + 100 * MOST_OFFSETS, 100))
    assert len(request_record(wanted(offsets=offsets), NOW).value or b"") < 50_000


def test_steps_add_up_until_one_ends_the_request() -> None:
    """What is refused, left and waited for is what the last step says."""
    steps = [
        WaitingDone(3, {"because": 1}, 4, "for space"),
        WaitingDone(2, {"because": 2}, 2, ""),
        WaitingDone(2, {}, 0, "", ended=True),
    ]
    records = [request_record(wanted(), NOW), *(done_record(KEY, step, NOW + 1) for step in steps)]
    assert state_of(records[:3]).done == {KEY: WaitingDone(5, {"because": 2}, 2, "", at_ms=NOW + 1)}
    assert state_of(records[:3]).open_requests()
    ended = state_of(records)
    assert ended.done == {KEY: WaitingDone(7, {}, 0, "", ended=True, at_ms=NOW + 1)}
    assert ended.open_requests() == []
    assert ended.ended_requests(NOW + 1) == []
    assert ended.ended_requests(NOW + 2) == [KEY]


def test_what_no_owner_ends_is_withdrawn_all_the_same() -> None:
    """A request about a partition that is gone, and the last step of one that was cancelled before it."""
    late = state_of([request_record(wanted(until_ms=NOW + 5), NOW)])
    assert (late.ended_requests(NOW + 5), late.ended_requests(NOW + 6)) == ([], [KEY])
    left = state_of([done_record(KEY, WaitingDone(1, {}, 2, ""), NOW + 1)])
    assert (left.ended_requests(NOW + 1), left.ended_requests(NOW + 2)) == ([], [KEY])


def test_the_oldest_request_is_the_first() -> None:
    """Whatever its id."""
    records = [request_record(wanted(key=KEY._replace(id=each)), NOW) for each in ("b", "c", "a")]
    assert [each.key.id for each in state_of(records).open_requests()] == ["b", "c", "a"]


@pytest.mark.parametrize(
    "change",
    [
        {"action": "drop"},
        {"offsets": [3, 0]},
        {"offsets": [-1]},
        {"offsets": [2**63 - 1, 1]},
        {"offsets": [1] * (MOST_OFFSETS + 1)},
        {"offsets": 7},
        {"dueMs": NOW},
        {"action": "delay"},
        {"untilMs": "soon"},
        {"below": -1},
    ],
    ids=str,
)
def test_a_damaged_request_is_none(change: dict[str, object]) -> None:
    """Another program has written it; it keeps no process from starting, nor a pause from being read."""
    key, value = request_record(wanted(), NOW)
    assert value is not None
    records = [ControlRecord(key, json.dumps(json.loads(value) | change).encode())]
    state = state_of(records)
    assert state.readable().open_requests() == []
    assert control_state(records).exists


@pytest.mark.parametrize(
    "value", [b"[]", b"7", b"{", b'{"done":1}', b'{"done":1,"refused":7,"left":0,"why":"","ended":1}']
)
def test_a_damaged_step_is_none(value: bytes) -> None:
    """The request stays open."""
    record = request_record(wanted(), NOW)
    state = state_of([record, ControlRecord(f"{KEY}/done".encode(), value)])
    assert state.readable().open_requests() == [wanted()]
    assert state_of([ControlRecord(record.key, value)]).readable().open_requests() == []


@pytest.mark.parametrize("key", [b"waiting/a/b", b"waiting/a/b/x", b"waiting/a/b/-1", "waiting/a/b/\u00b2".encode()])
def test_other_keys_are_ignored(key: bytes) -> None:
    """They are no requests."""
    assert state_of([ControlRecord(key, request_record(wanted(), NOW).value)]) == Pauses()
