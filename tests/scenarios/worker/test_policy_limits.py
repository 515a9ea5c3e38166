"""maximumRedeliveries N allows exactly N + 1 deliveries; a rejected record has one; -1 has no limit."""

import json
import time

import pytest

from tests.scenarios.cluster import Seen
from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import until

_USERS = [("traceparent", b"00-1"), ("twice", b"1"), ("twice", b"2"), ("null", None)]


def _policy(maximum: int) -> dict[str, object]:
    return {
        "redeliveryPolicy": {
            "maximumRedeliveries": maximum,
            "initialRedeliveryDelay": 50,
            "redeliveryDelay": 50,
        }
    }


def _cause(letter: Seen) -> dict[str, str]:
    found: dict[str, str] = json.loads(letter.header("dlqDeliveryFailureCause") or "")
    frames = found.pop("frames")
    assert frames[-1].startswith("tests.scenarios.handlers.")
    return found


@pytest.mark.parametrize("maximum", [0, 2])
def test_a_policy_is_exhausted_after_its_last_delivery(group: Group, maximum: int) -> None:
    """The dead letter comes after delivery N + 1 and has exactly the agreed headers with origin and cause."""
    group.prepare(
        policyEntry=_policy(maximum), handler={"notRetryable": ["tests.scenarios.handlers:BrokenPromiseError"]}
    )
    group.scheduler()
    group.worker()
    began_ms = int(time.time() * 1000)
    group.send([["raise"], ["reject"], ["broken"], ["ok"], ["after 10s"]], headers=_USERS)
    group.settle()
    group.stop()

    every = list(range(1, maximum + 2))
    assert group.deliveries.attempts() == {0: every, 1: [1], 2: [1], 3: [1], 4: every}
    assert group.outputs() == exactly([3])
    letters = {number(letter): letter for letter in group.cluster.read(group.dead_letters)}
    assert set(letters) == {0, 1, 2, 4}
    assert _cause(letters[0]) == {
        "reason": "redeliveries_exceeded",
        "exception": "ValueError",
        "message": f"attempt {maximum + 1} of 0",
    }
    assert _cause(letters[1]) == {"reason": "rejected", "exception": "Reject", "message": "not this one"}
    assert _cause(letters[2]) == {
        "reason": "rejected",
        "exception": "MoreBrokenPromiseError",
        "message": "never again",
    }
    assert _cause(letters[4])["exception"] == "Redeliver"

    sources = {number(record): record for record in group.cluster.read(group.source)}
    for n, letter in letters.items():
        origin = sources[n]
        deliveries = 1 if n in {1, 2} else maximum + 1
        assert list(letter.headers[:-1]) == [
            *_USERS,
            ("_AMQ_ORIG_ADDRESS", group.source.encode()),
            ("_AMQ_ORIG_QUEUE", group.name.encode()),
            ("_AMQ_ORIG_MESSAGE_ID", f"{group.source}-{origin.partition}@{origin.offset}".encode()),
            ("JMSTimestamp", b"%d" % origin.timestamp_ms),
            ("JMSXDeliveryCount", b"%d" % deliveries),
        ]
        assert letter.headers[-1][0] == "dlqDeliveryFailureCause"
        assert (letter.key, letter.value, letter.partition) == (origin.key, origin.value, origin.partition)
        assert letter.timestamp_ms >= began_ms


def test_minus_one_is_no_limit(group: Group) -> None:
    """A record that always fails is delivered more often than the default allows and is never dead-lettered."""
    group.prepare(policyEntry=_policy(-1))
    group.scheduler()
    group.worker()
    group.send([["raise"]])
    until(lambda: group.deliveries.counts()[0] >= 10, "ten deliveries")
    group.stop()

    assert group.deliveries.attempts()[0][:10] == list(range(1, 11))
    assert group.dead() == {}
    until(lambda: len(group.pending()) == 1, "the record is still pending")
