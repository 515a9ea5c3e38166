"""Each dead letter has a line in the log with its origin, key, attempt and cause."""

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until


def test_each_of_twelve_failing_orders_has_a_line(group: Group) -> None:
    """All of one exception class and within seconds; the worker stops in between, so that no line can be late."""
    policy = {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200}
    group.prepare(policyEntry={"redeliveryPolicy": policy})
    worker = group.worker()
    group.scheduler()
    group.send([["raise"]] * 12)
    until(lambda: group.dead() == exactly(range(12)), "all are dead letters")
    group.stop()
    lines = [line for line in worker.log.splitlines() if " dead-lettered " in line]
    assert len(lines) == 12
    for letter in group.cluster.read(group.dead_letters):
        origin = letter.header("_AMQ_ORIG_MESSAGE_ID")
        key = (letter.key or b"").decode()
        [line] = [line for line in lines if f" {origin} (key '{key}') " in line]
        assert " dead-lettered (redeliveries_exceeded) after 2 deliveries: " in line
        assert not line.endswith(": ")
