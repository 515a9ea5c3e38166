"""What became of a write during which Kafka went away is asked of Kafka, never guessed."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.crash.crashing import stopped, trapped
from tests.crash.load import BROKER, scripts, settings
from tests.crash.verdict import assert_exactly_once
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group, Role
from tests.scenarios.waiting import until
from transport.embedded import EmbeddedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.crash]

_NUMBER = 120
_OUTAGE_S = 8.0
"""Longer than what the trapped program lets a call wait for it."""


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker of this test alone, that finds its data again."""
    with EmbeddedKafka(data_dir=tmp_path / "kafka", properties=BROKER) as broker:
        yield broker


@pytest.fixture
def own_group(own_kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Group]:
    """A group on that broker."""
    found = Group(Cluster(own_kafka.bootstrap_servers), "outage", tmp_path)
    try:
        found.prepare(**settings())
        yield found
    finally:
        found.close()
        said = own_kafka.log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("--- kafka", *[line for line in said if not line.startswith("\tat ")][-30:], sep="\n")  # noqa: T201


def _settle(group: Group) -> None:
    """As long as Kafka may take to be itself again; its coordinators come last."""

    def settled() -> bool:
        try:
            return group.settled()
        except KafkaException:
            return False

    try:
        until(settled, "nothing is pending", within_s=90)
    except AssertionError as error:
        left = Counter((record.topic, record.partition) for record in group.pending())
        error.add_note(f"pending: {dict(left)}, members: {group.cluster.members(group.name)}")
        error.add_note(f"committed: {group.cluster.committed(group.name, group.source, group.ready)}")
        raise


@pytest.mark.parametrize("role", ["worker", pytest.param("scheduler", marks=pytest.mark.full)])
def test_a_commit_whose_answer_is_not_heard(group: Group, role: Role) -> None:
    """It has reached Kafka: a new producer settles it, and what the offsets say is done is not done again."""
    group.prepare(**settings())
    group.send(scripts(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    process, mark = trapped(group, role, "commit:before:3:unheard")
    until(mark.exists, "an answer was not heard")
    group.settle()
    assert "outcome of a transaction unknown" in process.log
    assert process.running
    group.stop()
    assert_exactly_once(group, _NUMBER)


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("how", "step"),
    [("killed", step) for step in ("init", "committed", "produce", "offsets", "commit")]
    + [("paused", step) for step in ("init", "offsets", "commit")],
)
def test_kafka_goes_away_at(own_kafka: EmbeddedKafka, own_group: Group, step: str, how: str) -> None:
    """Worker and scheduler stand right before a step while Kafka stops; both go on with it when Kafka is back."""
    group = own_group
    group.send(scripts(_NUMBER))
    # The worker goes on long enough for the scheduler to have something to do.
    of_worker = {"init": 1, "committed": 1, "produce": 40}.get(step, 8)
    traps = [
        trapped(group, "worker", f"{step}:before:{of_worker}:stop"),
        trapped(group, "scheduler", f"{step}:before:1:stop"),
    ]
    until(lambda: all(mark.exists() and stopped(process) for process, mark in traps), "both are at that step")
    if how == "paused":
        os.kill(own_kafka.pid, signal.SIGSTOP)
    else:
        own_kafka.kill()
    for process, _ in traps:
        os.kill(process.pid, signal.SIGCONT)
    time.sleep(_OUTAGE_S)
    if how == "paused":
        os.kill(own_kafka.pid, signal.SIGCONT)
    else:
        own_kafka.start()
    _settle(group)
    for process, _ in traps:
        assert process.running, process.log[-3000:]
    group.stop()
    assert_exactly_once(group, _NUMBER)


@pytest.mark.full
@pytest.mark.timeout(400)
def test_kafka_goes_away_again_and_again(own_kafka: EmbeddedKafka, own_group: Group) -> None:
    """Neither of the processes ends, and none stands idle before records that nobody has handled."""
    group = own_group
    processes = [group.worker(), group.scheduler()]
    sent = 0
    for number in range(6):
        group.send(scripts(_NUMBER, first=sent), first=sent)
        sent += _NUMBER
        before = sum(group.outputs().values())
        until(lambda before=before: sum(group.outputs().values()) > before, "they work", within_s=90)  # type: ignore[misc]
        if number % 2:
            own_kafka.kill()
        else:
            own_kafka.stop()
        own_kafka.start()
    _settle(group)
    for process in processes:
        assert process.running, process.log[-3000:]
    group.stop()
    assert_exactly_once(group, sent)
