"""A tier record that cannot be released or has impossible headers is dead-lettered alone; its tier continues."""

import json
import time

from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import LONG_S, until

_HOUR_MS = 3_600_000


def _waiting(group: Group, n: int, *, origin: str | None = None, ahead_ms: int = 0, **changed: bytes | None) -> Sent:
    """Make a tier record as a worker writes it, with some headers changed (``None``: left out)."""
    now = int(time.time() * 1000) + ahead_ms
    headers: dict[str, bytes | None] = {
        "_AMQ_ORIG_ADDRESS": (origin or group.source).encode(),
        "_AMQ_ORIG_QUEUE": group.name.encode(),
        "_AMQ_ORIG_MESSAGE_ID": f"{origin or group.source}-0@{n}".encode(),
        "JMSTimestamp": b"%d" % now,
        "JMSXDeliveryCount": b"1",
        "AMQ_SCHEDULED_DELAY": b"1000",
        "_AMQ_SCHED_DELIVERY": b"%d" % (now + 1000),
    }
    headers |= changed
    value = json.dumps({"n": n, "do": ["ok"]}).encode()
    return Sent(value, b"key", [pair for pair in headers.items() if pair[1] is not None], 0, now)


def test_what_cannot_be_released_is_dead_lettered(group: Group) -> None:
    """Records with a foreign origin or damaged headers are dead-lettered with their cause; later ones are released."""
    group.prepare(policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 1000, "redeliveryDelay": 1000}})
    group.cluster.produce(
        group.tier("1s"),
        [
            _waiting(group, 0),
            _waiting(group, 1, origin=f"{group.name}.gone"),
            _waiting(group, 2, _AMQ_ORIG_MESSAGE_ID=b"nonsense"),
            _waiting(group, 3, JMSXDeliveryCount=None),
            _waiting(group, 4, _AMQ_SCHED_DELIVERY=b"soon"),
            Sent(json.dumps({"n": 5, "do": []}).encode(), None, [], 0),
            _waiting(group, 6),
        ],
    )
    scheduler = group.scheduler()
    group.worker()
    group.settle()
    group.stop()

    # Record 4 has a damaged due time and is otherwise valid: it waits for the delay of its tier.
    assert group.outputs() == exactly([0, 4, 6])
    letters = {number(letter): letter for letter in group.cluster.read(group.dead_letters)}
    assert set(letters) == {1, 2, 3, 5}
    causes = {n: json.loads(letter.header("dlqDeliveryFailureCause") or "") for n, letter in letters.items()}
    assert {n: cause["reason"] for n, cause in causes.items()} == {
        1: "undeliverable",
        2: "bad_headers",
        3: "bad_headers",
        5: "bad_headers",
    }
    lines = [line for line in scheduler.log.splitlines() if " dead-lettered " in line]
    assert len(lines) == 4
    told = f"{group.name}.gone-0@1 (key 'key', waits at {group.tier('1s')}-0@1) dead-lettered (undeliverable) after 1 "
    assert sum(told in line for line in lines) == 1
    assert f"{group.name}.gone" in causes[1]["message"]
    assert letters[1].header("_AMQ_ORIG_ADDRESS") == f"{group.name}.gone"
    assert "_AMQ_ORIG_MESSAGE_ID" in causes[2]["message"]
    assert "JMSXDeliveryCount" in causes[3]["message"]


def test_a_clock_that_is_an_hour_ahead(group: Group) -> None:
    """A record with a time far ahead waits, and delays those behind it, no longer than its tier's delay."""
    group.prepare(policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 1000, "redeliveryDelay": 1000}})
    group.cluster.produce(group.tier("1s"), [_waiting(group, 0, ahead_ms=_HOUR_MS), _waiting(group, 1)])
    group.scheduler()
    group.worker()
    began = time.monotonic()
    until(lambda: 1 in group.outputs(), "the record behind it is released")
    group.settle()
    assert time.monotonic() - began < LONG_S
    group.stop()
    assert group.outputs() == exactly([0, 1])
