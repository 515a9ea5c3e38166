"""A worker that is frozen for longer than its handler's deadline: that time does not count."""

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until
from tests.unit.consumers.freezing import freeze_family

pytestmark = pytest.mark.kafka

_CALL_S = 3
_DEADLINE_S = 5
_FREEZE_S = 8


@pytest.mark.parametrize(
    "handler",
    [
        {},
        {"callable": "tests.scenarios.handlers:scripted_async"},
        {"isolation": "process"},
    ],
    ids=["threads", "event-loop", "child-processes"],
)
def test_no_delivery_is_counted(group: Group, handler: dict[str, object]) -> None:
    """As many calls as there are slots are under way. The policy allows no redelivery."""
    group.prepare(
        handler={"slots": 2, "deadline": f"{_DEADLINE_S}s", "ordering": "unordered"} | handler,
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    worker = group.worker()
    group.send([["ok"]] * 4)
    until(lambda: group.outputs() == exactly(range(4)), "the worker is at work")
    group.send([[f"sleep {_CALL_S}"]] * 2, first=4)
    until(lambda: {4, 5} <= {call.n for call in group.deliveries.began()}, "both slots are in a call")
    freeze_family(worker.pid, _FREEZE_S)
    until(lambda: group.outputs() == exactly(range(6)), "both calls have ended")
    group.stop()
    assert group.deliveries.attempts() == {n: [1] for n in range(6)}
    assert not group.dead()
