"""Which share of the calls has to find a dependency away, in the process of a handler on Spark."""

from typing import Any

from kafka_redelivery.pipeline.handler.child import Attempt, _Child, _HandlerSlots
from tests.unit.pipeline.stream.test_query_outages import settings


def test_the_share_begins_anew_after_an_outage() -> None:
    """As in a worker: a single failure afterwards opens no outage."""
    no_slots: Any = None
    slots = _HandlerSlots(settings(threshold="50% of 4").handlers["t"], no_slots, grace_s=0)
    child = _Child.__new__(_Child)
    child.handlers, child._attempt = {"t": slots}, Attempt(1)
    threshold = slots._thresholds["bank"]
    threshold.count(0, 4)

    child._begin(Attempt(2, {"bank": 0.0}))
    assert threshold.reached
    child._begin(Attempt(3))
    assert not threshold.reached
