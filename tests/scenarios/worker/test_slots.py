"""Handlers run concurrently in their slots, and a deadline ends calls that take too long."""

import json

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import LONG_S, until


@pytest.mark.slow
def test_asynchronous_handlers_overlap(group: Group) -> None:
    """With thirty-two slots, sixty-four calls of two seconds take a fraction of their sum."""
    call_s = 2  # so long that also on a busy machine half of the slots are taken before a call ends
    group.prepare(
        partitions=4,
        handler={"callable": "tests.scenarios.handlers:scripted_async", "slots": 32, "ordering": "unordered"},
    )
    group.send([[f"sleep {call_s}"]] * 64)
    group.worker()
    group.settle()
    group.stop()

    assert group.outputs() == exactly(range(64))
    calls = group.deliveries.all()
    assert calls[-1].at_s - calls[0].at_s < 64 * call_s / 3
    running = peak = 0
    for call in calls:
        running += 1 if call.what == "began" else -1
        peak = max(peak, running)
    assert 16 <= peak <= 32


def test_a_deadline_cancels_an_asynchronous_handler(group: Group) -> None:
    """A call past its deadline is cancelled and counts as a failed delivery under the policy."""
    group.prepare(
        handler={"callable": "tests.scenarios.handlers:scripted_async", "slots": 2, "deadline": "2s"},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}
        },
    )
    group.scheduler()
    group.worker()
    group.send([["sleep 30"], ["sleep 30", "ok"], ["ok"]])
    group.settle()
    group.stop()

    assert group.deliveries.attempts() == {0: [1, 2], 1: [1, 2], 2: [1]}
    assert group.outputs() == exactly([1, 2])
    (letter,) = group.cluster.read(group.dead_letters)
    assert number(letter) == 0
    cause = json.loads(letter.header("dlqDeliveryFailureCause") or "")
    assert (cause["reason"], cause["exception"]) == ("redeliveries_exceeded", "DeadlineExceeded")
    assert {call.n for call in group.deliveries.all() if call.what == "ended"} == {1, 2}


def test_a_thread_past_its_deadline_is_given_up(group: Group) -> None:
    """The outcome of a call that returns after its deadline is discarded, as the record has failed already."""
    group.prepare(handler={"slots": 2, "deadline": "2s"})
    gate = group.folder / "gate"
    group.scheduler()
    group.worker()
    group.send([[f"wait {gate}", "ok"], *[["ok"]] * 10])
    until(lambda: 0 in group.outputs(), "the second call of the same record succeeds")
    gate.touch()
    until(
        lambda: any((call.n, call.attempt, call.what) == (0, 1, "ended") for call in group.deliveries.all()),
        "the first call returns at last",
    )
    group.send([["ok"]] * 10, first=11)
    group.settle()
    group.stop()

    assert group.deliveries.attempts()[0] == [1, 2]
    assert group.outputs() == exactly(range(21))
    assert [record.header("JMSXDeliveryCount") for record in group.cluster.read(group.tier("200ms"))] == ["1"]


def test_a_worker_without_a_free_slot_halts(group: Group) -> None:
    """When no call returns from any slot, the worker halts with its exit code and nothing is lost."""
    group.prepare(
        partitions=4,
        handler={"slots": 2, "deadline": "2s"},
        limits={"shutdownTimeout": "4s", "rebalanceTimeout": "2s"},
    )
    group.send([["ok"]] * 20)
    group.send([["sleep 60", "ok"], ["sleep 60", "ok"]], first=20)
    group.send([["ok"]] * 20, first=22)
    worker = group.worker()
    assert worker.wait(LONG_S) == exit_codes.HALTED
    assert "slots" in worker.log.splitlines()[-1]

    group.scheduler()
    group.worker()
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(42))
    assert group.dead() == {}


@pytest.mark.parametrize("ordering", ["unordered", "key"])
def test_a_slow_call_delays_no_other_record(group: Group, ordering: str) -> None:
    """The other records of its work item are written while it runs, those before it and those behind it."""
    group.prepare(partitions=1, handler={"slots": 2, "ordering": ordering})
    fast, slow = 600, 700
    group.send([["ok"]] * fast)
    group.worker()
    group.settle()  # by now a work item holds many records
    do = [["ok"]] * 200
    others_are_written = group.folder / "others"
    do[slow - fast] = [f"wait {others_are_written}"]
    group.send(do, first=fast, keys=200)
    until(lambda: group.outputs() == exactly({*range(fast + 200)} - {slow}), "all others are written")
    others_are_written.touch()
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(fast + 200))
