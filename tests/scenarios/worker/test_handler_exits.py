"""A handler that calls ``sys.exit`` fails its record, which is redelivered and dead-lettered; the worker goes on."""

import json
from collections.abc import Mapping

import pytest

from tests.scenarios.running import Group, exactly, number

_IN_A_TASK = ["sys.exit", "gather", "group"]


@pytest.mark.parametrize(
    ("function", "verbs", "handler"),
    [
        pytest.param("scripted", ["sys.exit"], {}, id="threads"),
        pytest.param("scripted_async", _IN_A_TASK, {}, id="tasks"),
        pytest.param("scripted", ["sys.exit"], {"isolation": "process"}, id="children"),
        pytest.param("scripted_async", _IN_A_TASK, {"isolation": "process"}, id="tasks-in-children"),
        pytest.param("scripted", ["sys.exit"], {"persistDeliveryCountBeforeDelivery": True}, id="persisted-counts"),
    ],
)
def test_an_exit_is_counted(group: Group, function: str, verbs: list[str], handler: Mapping[str, object]) -> None:
    """One record recovers at the second attempt, another uses up its attempts, for each way to exit."""
    group.prepare(
        handler={"callable": f"tests.scenarios.handlers:{function}", "slots": 2, **handler},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}
        },
    )
    recovering, dying = range(len(verbs)), range(10, 10 + len(verbs))
    group.send([[verb, "ok"] for verb in verbs])
    group.send([[verb] for verb in verbs], first=10)
    group.send([["ok"]] * 20, first=20)
    group.scheduler()
    worker = group.worker()
    group.settle()
    assert worker.running
    worker.stop()
    group.stop()

    assert group.outputs() == exactly([*recovering, *range(20, 40)])
    assert group.dead() == exactly(dying)
    attempts = group.deliveries.attempts()
    assert {n: attempts[n] for n in (*recovering, *dying)} == {n: [1, 2] for n in (*recovering, *dying)}
    for letter in group.cluster.read(group.dead_letters):
        cause = json.loads(letter.header("dlqDeliveryFailureCause") or "")
        assert (number(letter) in dying, cause["reason"], cause["exception"], cause["message"]) == (
            *(True, "redeliveries_exceeded"),
            *("SystemExit", "3"),
        )
