"""Where the scheduler's user lacks a right on a topic, the log names the right, and other work continues."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.commands import redelivery
from tests.scenarios.gatekeeper import Gatekeeper
from tests.scenarios.letters import emptied, expiring, kept, letter
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.waiting import until

_REFUSED = "redelivery_sweep_refused_total"
_ALL_BUT_DELETE = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")


@pytest.fixture
def group(gatekeeper: Gatekeeper, unique: str, tmp_path: Path) -> Iterator[Group]:
    """Yield a group that runs as the limited user and whose dead letters expire after an hour."""
    found = Group(gatekeeper.cluster, unique, tmp_path)
    policy = expiring(3_600_000) | {"redeliveryPolicy": {"maximumRedeliveries": 3, "initialRedeliveryDelay": 200}}
    found.prepare(1, policyEntry=policy)
    found.configure(kafka=gatekeeper.kafka, metrics={"port": free_port(), "host": "127.0.0.1"})
    try:
        yield found
    finally:
        found.close()


@pytest.mark.slow
@pytest.mark.kafka
def test_a_scheduler_that_may_not_delete_still_releases(group: Group, gatekeeper: Gatekeeper) -> None:
    """The log names topic and right once; records are redelivered; with the right the dead letters are removed."""
    port = group.configuration["metrics"]["port"]
    gatekeeper.allow(group.dead_letters, *_ALL_BUT_DELETE)
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    scheduler = group.scheduler()
    until(
        lambda: value_of(port, _REFUSED, dead_letter_topic=group.dead_letters) >= 2,
        "the removal was refused and tried again",
    )
    lines = [line for line in scheduler.log.splitlines() if "cannot be removed" in line]
    assert len(lines) == 1
    assert f"{group.dead_letters}-0 cannot be removed" in lines[0]
    assert "grant the right Delete on topic " in lines[0]

    group.configure(metrics={})
    group.worker()
    group.send([["raise", "ok"]] * 3)
    until(lambda: len(group.outputs()) == 3, "failed records are delivered again")
    assert kept(group) == list(range(5))

    done = redelivery("sweep", "--dry-run", file=group.file)
    assert "5 expired dead letters would be removed" in done.out
    gatekeeper.allow(group.dead_letters, *_ALL_BUT_DELETE, "DELETE")
    until(lambda: emptied(group), "they are removed when that is allowed")
    group.stop()


@pytest.mark.kafka
def test_a_topic_that_may_not_be_read_holds_up_no_other(group: Group, gatekeeper: Gatekeeper) -> None:
    """The log names the topic and the right; scheduler and command sweep the other topic."""
    other = f"{group.name}.second"
    group.cluster.create(other, f"DLQ.{other}", f"{group.name}.ready.{other}", partitions=1)
    whole = [{"topic": group.source}, {"topic": other}]
    group.configure(kafka={})
    group.configure(sources=whole)
    group.apply()
    group.configure(kafka=gatekeeper.kafka)
    gatekeeper.allow(f"DLQ.{other}", "DESCRIBE", "DESCRIBE_CONFIGS", "WRITE")
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    group.cluster.produce(f"DLQ.{other}", [letter(group, n, 1000) for n in range(5)])

    scheduler = group.scheduler(None)  # without an instance name it leaves the group when it ends
    until(lambda: emptied(group), "the topic that may be read is swept")
    until(lambda: f"topic DLQ.{other} may not be read" in scheduler.log, "the log names the other topic")
    assert "grant the right Read on topic" in scheduler.log
    resting = "redelivery_sweep_resting_partitions"
    port = group.configuration["metrics"]["port"]
    until(
        lambda: value_of(port, resting, dead_letter_topic=f"DLQ.{other}", reason="refused") == 1,
        "the metrics show the refusal",
    )
    group.stop()

    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    for options in (("--json", "--dry-run"), ("--json",)):
        done = redelivery("sweep", *options, file=group.file)
        assert done.code == 1, done.err
        first, second = sorted(json.loads(done.out)["topics"], key=lambda topic: topic["problem"] or "")
        assert (first["topic"], first["partitions"][0]["removed"]) == (group.dead_letters, 5)
        assert "grant the right Read on topic" in second["problem"]
    assert emptied(group)
