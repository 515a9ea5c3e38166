"""A scheduler whose clock is ahead does not make redeliveries early: the worker holds them until they are due."""

import pytest

from tests.scenarios.running import Group, exactly

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
