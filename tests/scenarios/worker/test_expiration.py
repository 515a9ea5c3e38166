"""A source record whose JMSExpiration has passed is acknowledged as expired instead of delivered."""

import json
import time

import pytest

from tests.scenarios.running import Group, exactly, number
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.waiting import until

_PAST = [("JMSExpiration", b"1000")]


def _send(group: Group) -> None:
    in_an_hour_ms = int(time.time() * 1000) + 3_600_000
    group.send([["ok"]] * 3, first=0, headers=_PAST)
    group.send([["ok"]] * 3, first=3, headers=[("JMSExpiration", b"%d" % in_an_hour_ms)])
    group.send([["ok"]] * 3, first=6, headers=[("JMSExpiration", b"0")])
    group.send([["ok"]] * 3, first=9, headers=[("JMSExpiration", b"next week")])


def test_an_expired_record_is_dead_lettered(group: Group) -> None:
    """The dead letter has the expiration and the time at which it was found expired; the others are handled."""
    group.prepare()
    before_ms = int(time.time() * 1000)
    _send(group)
    group.worker()
    group.settle()
    group.stop()

    assert group.outputs() == exactly(range(3, 12))
    assert set(group.deliveries.counts()) == set(range(3, 12))
    letters = group.cluster.read(group.dead_letters)
    assert sorted(number(letter) for letter in letters) == [0, 1, 2]
    for letter in letters:
        assert letter.header("originalExpiration") == "1000"
        assert before_ms <= int(letter.header("_AMQ_ACTUAL_EXPIRY") or "") <= int(time.time() * 1000)
        assert letter.header("JMSExpiration") is None
        assert json.loads(letter.header("dlqDeliveryFailureCause") or "")["reason"] == "expired"


@pytest.mark.parametrize(
    "strategy", [{"processExpired": False}, {"kind": "discarding"}], ids=["processExpired-off", "discarding"]
)
def test_an_expired_record_is_discarded_and_counted(group: Group, strategy: dict[str, object]) -> None:
    """Where expired records are not processed, they are dropped and counted with ack type EXPIRED."""
    port = free_port()
    group.prepare(
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}, "deadLetterStrategy": strategy},
        metrics={"port": port, "host": "127.0.0.1"},
    )
    _send(group)
    group.send([["raise"]], first=12)
    group.worker()
    group.settle()
    counts = {"expired": 3.0, "poison": 1.0 if strategy.get("kind") == "discarding" else 0.0}

    def counted() -> dict[str, float]:
        labels = {"topic": group.source, "outcome": "discarded"}
        return {kind: value_of(port, "redelivery_deliveries_total", **labels, ack_type=kind) for kind in counts}

    until(lambda: counted() == counts, "they are counted")  # which is after their offsets are committed
    group.stop()

    assert group.outputs() == exactly(range(3, 12))
    if strategy.get("kind") == "discarding":
        assert group.dead_letters not in group.cluster.topics()
    else:
        assert group.dead() == exactly([12])
