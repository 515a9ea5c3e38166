"""A value that does not fit the handler's type is dead-lettered without a delivery, and its partition continues."""

import json
import os
from dataclasses import dataclass
from decimal import Decimal

import pytest

from kafka_redelivery import Context, Record
from tests.scenarios.cluster import Sent
from tests.scenarios.handlers import OUTPUT
from tests.scenarios.running import Group


@dataclass
class Order:
    n: int
    amount: Decimal = Decimal(1)


@dataclass
class Receipt:
    order: Order
    attempt: int


def emit(record: Record[Order], context: Context) -> None:
    """Fail at the first attempt, then emit an object."""
    if context.attempt == 1:
        raise ConnectionError
    context.send(os.environ[OUTPUT], Receipt(record.value, context.attempt), key=str(record.value.n).encode())


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_value_that_does_not_fit_is_dead_lettered_at_once(group: Group, isolation: str) -> None:
    """It is byte for byte in the dead-letter topic, with its place; the metrics have the reason."""
    group.prepare(
        handler={"callable": "tests.scenarios.worker.test_invalid_value:emit", "isolation": isolation},
        outputs=[{"topic": group.output, "value": {"format": "json"}}],
        failureDetails="class-only",
    )
    good = [Sent(b'{"n": %d, "amount": "2.50"}' % n, b"k", (), n % 2) for n in range(10)]
    bad = [Sent(b'{"n": "secret"}', b"k", (), 0), Sent(None, b"k", (), 1)]
    group.cluster.produce(group.source, [*good[:5], *bad, *good[5:]])
    group.worker()
    group.scheduler()
    group.settle()
    group.stop()

    letters = group.cluster.read(group.dead_letters)
    assert {(letter.value, letter.header("JMSXDeliveryCount")) for letter in letters} == {
        (each.value, "0") for each in bad
    }
    causes = [json.loads(letter.header("dlqDeliveryFailureCause") or "") for letter in letters]
    assert {each["reason"] for each in causes} == {"invalid_value"}
    assert sorted(each["message"] for each in causes) == [
        "$.n: int_parsing",
        "$: null or a tombstone, but the handler takes Order without None",
    ]
    receipts = [json.loads(record.value or b"") for record in group.cluster.read(group.output)]
    assert {each["order"]["n"]: each for each in receipts} == {
        n: {"order": {"n": n, "amount": "2.50"}, "attempt": 2} for n in range(10)
    }
    assert len(receipts) == 10
