"""Only the record that kills its worker is counted, and it ends as a dead letter; no other record is counted."""

import json
from collections import Counter

import pytest

from tests.scenarios.running import SIGKILLED, Group, Process, exactly
from tests.scenarios.waiting import until

_NUMBER = 500
_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}}


def _until_it_lives(group: Group, worker: Process, *, max_deaths: int) -> list[int]:
    """Restart the worker each time it dies until nothing is pending; return the exit codes."""
    codes: list[int] = []
    for _ in range(max_deaths + 1):
        alive = worker
        until(lambda alive=alive: not alive.running or group.settled(), "the worker dies or nothing is pending")  # type: ignore[misc]
        if worker.running:
            return codes
        codes.append(worker.wait(1))
        worker = group.worker()
    raise AssertionError(f"the worker died more than {max_deaths} times: {codes}")


@pytest.mark.parametrize(
    ("mode", "death", "partitions"),
    [("transacted", "kill", 1), ("auto", "exit", 2)],
    ids=["transacted", "auto"],
)
def test_of_five_hundred_only_the_killer_is_counted(group: Group, mode: str, death: str, partitions: int) -> None:
    """It is dead-lettered after its last attempt; the other 499 are acknowledged at their first counted delivery."""
    group.prepare(
        partitions=partitions,
        mode=mode,
        handler={"persistDeliveryCountBeforeDelivery": True, "slots": 2},
        policyEntry=_POLICY,
    )
    killer = 250
    group.send([death] if n == killer else ["ok"] for n in range(_NUMBER))
    codes = _until_it_lives(group, group.worker(), max_deaths=4)
    group.stop()

    # It dies once with other records in delivery, when none is counted, and then at each of the three attempts.
    assert codes == [SIGKILLED if death == "kill" else 3] * 4
    assert group.deliveries.attempts()[killer] == [1, 1, 2, 3]
    assert group.dead() == Counter([killer])
    [letter] = group.cluster.read(group.dead_letters)
    headers = dict(letter.headers)
    assert headers["JMSXDeliveryCount"] == b"3"
    assert json.loads(headers["dlqDeliveryFailureCause"] or b"")["reason"] == "client_died"
    innocent = set(range(_NUMBER)) - {killer}
    assert {attempt for n in innocent for attempt in group.deliveries.attempts()[n]} == {1}
    if mode == "transacted":
        assert group.outputs() == exactly(innocent)
    else:
        assert group.outputs().keys() == innocent
    assert {metadata for _, metadata in group.cluster.committed(group.name, group.source).values()} == {""}


def test_a_slot_in_a_child_process_dies_alone(group: Group) -> None:
    """The worker survives; only the killer is redelivered, and it is dead-lettered after its last attempt."""
    group.prepare(handler={"isolation": "process", "slots": 2, "deadline": "20s"}, policyEntry=_POLICY)
    killers = {3: "kill", 40: "exit"}
    group.scheduler()
    worker = group.worker()
    group.send([killers.get(n, "ok")] for n in range(60))
    group.settle()
    assert worker.running
    group.stop()

    attempts = group.deliveries.attempts()
    assert {n: attempts.pop(n) for n in killers} == {n: [1, 2, 3] for n in killers}
    assert set(map(tuple, attempts.values())) == {(1,)}
    assert group.outputs() == exactly(set(range(60)) - killers.keys())
    assert group.dead() == exactly(killers)
    assert worker.pid not in {call.pid for call in group.deliveries.began()}
