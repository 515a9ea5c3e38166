"""A worker or scheduler that does not know a write's outcome asks Kafka for it."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.crash.crashing import stopped, trapped
from tests.crash.load import scripts, settings
from tests.crash.verdict import assert_exactly_once
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group, Role
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash]

_NUMBER = 120
_OUTAGE_S = 8.0
"""Longer than the time-out of a broker call in the trapped program."""


@pytest.fixture
def own_group(own_kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Group]:
    """Yield a group on that broker."""
    found = Group(Cluster(own_kafka.bootstrap_servers), "outage", tmp_path)
    try:
        found.prepare(**settings())
        yield found
    finally:
        found.close()
        lines = own_kafka.log.read_text(encoding="utf-8", errors="replace").splitlines()
        if own_kafka.running:
            status = Path(f"/proc/{own_kafka.pid}/status").read_text(encoding="utf-8")
            print(*[line for line in status.splitlines() if line.startswith(("State", "VmRSS"))], sep="\n")  # noqa: T201
        print("--- kafka", *[line for line in lines if not line.startswith("\tat ")][-30:], sep="\n")  # noqa: T201


def _await_nothing_pending(group: Group) -> None:
    """Wait until nothing is pending, as long as Kafka may take to recover; its coordinators come last."""

    def settled() -> bool:
        try:
            return group.settled()
        except KafkaException:
            return False

    try:
        until(settled, "nothing is pending")
    except AssertionError as error:
        left = Counter((record.topic, record.partition) for record in group.pending())
        error.add_note(f"pending: {dict(left)}, members: {group.cluster.members(group.name)}")
        error.add_note(f"committed: {group.cluster.committed(group.name, group.source, group.ready)}")
        raise


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_commit_whose_answer_is_not_heard(group: Group, role: Role) -> None:
    """The commit has reached Kafka: a new producer completes it, and committed records are not handled again."""
    group.prepare(**settings())
    group.send(scripts(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    process, mark = trapped(group, role, "commit:before:3:unheard")
    until(mark.exists, "an answer was lost")
    group.settle()
    assert "outcome of a transaction unknown" in process.log
    assert process.running
    group.stop()
    assert_exactly_once(group, _NUMBER)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("how", "step"),
    [("killed", step) for step in ("init", "committed", "produce", "offsets", "commit")]
    + [("paused", step) for step in ("init", "offsets", "commit")],
)
def test_kafka_goes_away_at(own_kafka: EmbeddedKafka, own_group: Group, step: str, how: str) -> None:
    """Worker and scheduler are suspended before a step while Kafka stops, and go on when Kafka is back."""
    group = own_group
    group.send(scripts(_NUMBER))
    # The worker works long enough to give the scheduler records to release.
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
    _await_nothing_pending(group)
    for process, _ in traps:
        assert process.running, process.log[-3000:]
    group.stop()
    assert_exactly_once(group, _NUMBER)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_kafka_goes_away_again_and_again(own_kafka: EmbeddedKafka, own_group: Group) -> None:
    """Neither process ends, and each keeps handling records after every restart of Kafka."""
    group = own_group
    processes = [group.worker(), group.scheduler()]
    sent = 0
    for number in range(6):
        group.send(scripts(_NUMBER, first=sent), first=sent)
        sent += _NUMBER
        before = sum(group.outputs().values())
        until(lambda before=before: sum(group.outputs().values()) > before, "records are handled")  # type: ignore[misc]
        with group.suspended():
            if number % 2:
                own_kafka.kill()
            else:
                own_kafka.stop()
        own_kafka.start()
    _await_nothing_pending(group)
    for process in processes:
        assert process.running, process.log[-3000:]
    group.stop()
    assert_exactly_once(group, sent)
