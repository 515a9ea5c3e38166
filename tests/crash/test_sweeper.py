"""Expired dead letters are moved exactly once and removed, wherever the sweeper dies."""

import pytest

from tests.crash.crashing import trapped
from tests.scenarios.letters import emptied, expiring, kept, letter
from tests.scenarios.running import SIGKILLED, Group
from tests.scenarios.waiting import LONG_S, until


@pytest.mark.crash
@pytest.mark.parametrize("trap", ["remove:before:1:die", "commit:before:1:die"])
def test_death_between_the_move_and_the_removal(group: Group, trap: str) -> None:
    """After the commit of the move, its successor only removes; before it, the moved records are not visible."""
    group.prepare(policyEntry=expiring(3_600_000, expiryAddress="EXP.{topic}"))
    expiry = f"EXP.{group.source}"
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000, partition=n % 2) for n in range(30)])
    dying, mark = trapped(group, "scheduler", trap)
    assert dying.wait(LONG_S) == SIGKILLED
    assert mark.exists()
    assert kept(group) == list(range(30)), "a dead letter was removed too early"
    # Kafka lets readers see a transaction a little later than it answers the commit.
    until(lambda: bool(kept(group, expiry)) is trap.startswith("remove"), "what was moved can be read")

    group.start("scheduler", "one")
    until(lambda: emptied(group), "all are removed")
    group.stop()

    assert kept(group, expiry) == list(range(30))
    for record in group.cluster.read(expiry):
        assert record.header("JMSExpiration") is None
        assert record.header("_AMQ_ACTUAL_EXPIRY") is not None
        assert record.header("_AMQ_ORIG_ADDRESS") == group.source
        assert record.header("traceparent") == f"00-{int(record.value or b'')}"
        assert record.partition == int(record.value or b"") % 2
