"""A ready record whose headers another program has written neither stops the worker nor loses its origin."""

import json
import time

from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import until


def _ready(group: Group, n: int, do: list[str], **changed: bytes | None) -> Sent:
    """Make a ready record as a scheduler writes it, with some headers changed (``None``: left out)."""
    now = int(time.time() * 1000)
    headers: dict[str, bytes | None] = {
        "_AMQ_ORIG_ADDRESS": group.source.encode(),
        "_AMQ_ORIG_QUEUE": group.name.encode(),
        "_AMQ_ORIG_MESSAGE_ID": f"{group.source}-0@{n}".encode(),
        "JMSTimestamp": b"%d" % (now - 1000),
        "JMSXDeliveryCount": b"1",
        "_AMQ_SCHED_DELIVERY": b"%d" % now,
    }
    headers |= changed
    value = json.dumps({"n": n, "do": do}).encode()
    return Sent(value, b"key", [pair for pair in headers.items() if pair[1] is not None], 0, now)


def test_a_delivery_count_of_twelve_digits(group: Group) -> None:
    """The record is redelivered after its delay, and the worker handles all others meanwhile."""
    delays = {"maximumRedeliveries": -1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}
    group.prepare(policyEntry={"redeliveryPolicy": {**delays, "useCollisionAvoidance": True}})
    recovered = group.folder / "recovered"
    group.scheduler()
    group.worker()
    record = _ready(group, 0, [f"until {recovered}"], JMSXDeliveryCount=b"999999999999")
    group.cluster.produce(group.ready, [record])
    until(lambda: len(group.deliveries.attempts().get(0, [])) >= 3, "it is redelivered")
    group.send([["ok"]] * 20, first=1)
    until(lambda: group.outputs() == exactly(range(1, 21)), "the others are handled")
    recovered.touch()
    group.settle()
    group.stop()

    attempts = group.deliveries.attempts()[0]
    assert attempts == list(range(10**12, 10**12 + len(attempts)))
    assert group.outputs() == exactly(range(21))


def test_a_damaged_lineage_keeps_what_can_be_read(group: Group) -> None:
    """The dead letter names the origin wherever the ready record did, and the reason names the header."""
    group.prepare()
    group.worker()
    group.cluster.produce(
        group.ready,
        [
            _ready(group, 0, ["ok"], JMSXDeliveryCount=None),
            _ready(group, 1, ["ok"], JMSTimestamp=b"yesterday"),
            _ready(group, 2, ["ok"], _AMQ_ORIG_MESSAGE_ID=b"nonsense"),
            _ready(group, 3, ["ok"], _AMQ_ORIG_MESSAGE_ID=None, _AMQ_ORIG_ADDRESS=b"\xff"),
            _ready(group, 4, ["ok"]),
            _ready(group, 5, ["ok"], JMSXDeliveryCount=None, _AMQ_ORIG_MESSAGE_ID=f"{group.source}-0@0".encode()),
        ],
    )
    group.settle()
    group.stop()

    assert group.outputs() == exactly([4])
    letters = {number(letter): letter for letter in group.cluster.read(group.dead_letters)}
    origins = {
        n: (letter.header("_AMQ_ORIG_ADDRESS"), letter.header("_AMQ_ORIG_MESSAGE_ID")) for n, letter in letters.items()
    }
    assert origins == {
        0: (group.source, f"{group.source}-0@0"),
        1: (group.source, f"{group.source}-0@1"),
        2: (group.source, f"{group.ready}-0@2"),
        3: (group.ready, f"{group.ready}-0@3"),
        5: (group.source, f"{group.source}-0@0"),  # no duplicate of record 0: its headers are damaged, too
    }
    causes = {n: json.loads(letter.header("dlqDeliveryFailureCause") or "") for n, letter in letters.items()}
    assert {cause["reason"] for cause in causes.values()} == {"bad_headers"}
    assert "JMSXDeliveryCount is missing" in causes[0]["message"]
    assert letters[1].header("JMSXDeliveryCount") == "1"
