"""A dead-letter topic that was deleted and created again is swept from its start, whatever was moved before."""

import json

import pytest

from kafka_redelivery.topology.cluster.sweep_plan import sweeper_group
from tests.scenarios.commands import redelivery
from tests.scenarios.letters import emptied, expiring, kept, letter, now_ms
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_HOUR_MS = 3_600_000


def _prepared(group: Group) -> str:
    """Prepare a group whose dead letters expire; return its expiry topic, which has the numbers 0 to 19."""
    group.prepare(1, policyEntry=expiring(_HOUR_MS, expiryAddress="EXP.{topic}"))
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(20)])
    return f"EXP.{group.source}"


def test_while_a_scheduler_runs(group: Group) -> None:
    """Its position is one of the topic that was deleted, and so is what it would remove up to there."""
    expiry = _prepared(group)
    scheduler = group.scheduler()
    until(lambda: emptied(group), "the first letters are swept")
    group.cluster.delete(group.dead_letters)
    group.cluster.create(group.dead_letters)
    later_ms = now_ms() + _HOUR_MS
    letters = [letter(group, 100 + n, 1000 if n < 3 or n > 10 else later_ms) for n in range(40)]
    group.cluster.produce(group.dead_letters, letters)
    until(lambda: kept(group) == list(range(103, 140)), "those at its start are removed", within_s=150)
    until(lambda: kept(group, expiry) == [*range(20), 100, 101, 102], "they are moved")
    assert "was deleted and created again" in scheduler.log
    group.stop()
    assert kept(group) == list(range(103, 140))


@pytest.mark.parametrize("known", [True, False])
def test_a_committed_offset_of_the_topic_before(group: Group, *, known: bool) -> None:
    """An old sweeper commits by name. With the ids of its topic that is not believed; without them it is, as before."""
    expiry = _prepared(group)
    assert redelivery("sweep", file=group.file).code == 0
    until(lambda: kept(group, expiry) == list(range(20)), "the first letters are moved")
    sweeper = sweeper_group(group.name)
    ((offset, metadata),) = group.cluster.committed(sweeper, group.dead_letters).values()
    assert (offset, metadata.count(" ")) == (20, 1)
    group.cluster.delete(group.dead_letters)
    group.cluster.create(group.dead_letters)
    group.cluster.produce(group.dead_letters, [letter(group, 100 + n, 1000) for n in range(20)])
    group.cluster.commit(sweeper, group.dead_letters, 0, offset, metadata if known else "")
    planned = json.loads(redelivery("sweep", "--dry-run", "--json", file=group.file).out)
    assert (planned["removed"], planned["moved"]) == (20, 20 if known else 0)
    assert redelivery("sweep", file=group.file).code == 0
    assert emptied(group)
    assert len(kept(group, expiry)) == (40 if known else 20)
