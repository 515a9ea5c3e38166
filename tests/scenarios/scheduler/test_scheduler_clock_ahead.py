"""A clock that is ahead makes no redelivery early, and is no fault of a record."""

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

_DELAY_S = 2


@pytest.mark.parametrize("ordering", ["partition", "unordered"])
def test_the_worker_holds_a_redelivery_until_it_is_due(group: Group, ordering: str) -> None:
    """By the clock of the worker that failed the record. The scheduler releases it 1.5 s too soon."""
    policy = {"initialRedeliveryDelay": _DELAY_S * 1000, "redeliveryDelay": _DELAY_S * 1000}
    group.prepare(partitions=1, policyEntry={"redeliveryPolicy": policy}, handler={"ordering": ordering})
    group.scheduler(program=("-m", "tests.scenarios.clock_ahead"))
    group.worker()
    group.send([["raise", "ok"]] * 20)
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(20))
    called: dict[int, list[float]] = {}
    for call in group.deliveries.began():
        called.setdefault(call.n, []).append(call.at_s)
    assert len(called) == 20
    assert min(second - first for first, second in called.values()) >= _DELAY_S


@pytest.mark.parametrize("mode", ["transacted", "auto"])
@pytest.mark.parametrize("refusing", ["output", "tier"])
def test_a_topic_that_refuses_the_clock_of_a_worker(group: Group, mode: str, refusing: str) -> None:
    """What needs the topic waits uncounted, and is written once the topic allows the difference.

    In mode ``auto`` the records that are tried meanwhile may be written twice.
    """
    policy = {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100}
    group.prepare(policyEntry={"redeliveryPolicy": policy}, mode=mode)
    topic = group.output if refusing == "output" else group.tier("100ms")
    group.cluster.alter(topic, message_timestamp_after_max_ms="1000")
    group.send([["ok"]] * 10 if refusing == "output" else [["raise", "ok"]] * 10)
    group.scheduler()
    worker = group.worker(program=("-m", "tests.scenarios.clock_ahead"))
    until(lambda: "correct the clock of this machine" in worker.log, "the cause is named")
    group.cluster.alter(topic, message_timestamp_after_max_ms="3600000")
    group.settle()
    group.stop()
    assert group.outputs().keys() == set(range(10))
    assert group.outputs().total() == 10 or mode == "auto"
    assert group.dead() == exactly([])
    assert bool(group.cluster.read(group.tier("100ms"))) == (refusing == "tier")
