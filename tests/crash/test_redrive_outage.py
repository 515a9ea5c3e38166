"""Kafka is killed and restarted in the middle of a job: each letter is sent exactly once, its story is right."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.crash import hasty
from tests.crash.redriving import LETTERS, RATE, suspended_at
from tests.scenarios.cluster import Cluster
from tests.scenarios.redriving import died, dlq_json, sent
from tests.scenarios.running import COMMAND, Group, Process, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full]

_DEAD = frozenset(range(0, LETTERS, 4))
"""The numbers of the records that fail again."""

_OUTAGE_S = 8.0
"""Longer than the time-out of a call of a program with a trap that suspends it."""

_LONG_S = 25.0
"""Longer than all time-outs of the hasty program."""


@pytest.fixture
def own_group(own_kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Group]:
    """Yield a group on that broker, with dead letters, and a worker and a scheduler that run."""
    group = Group(Cluster(own_kafka.bootstrap_servers), "outage", tmp_path)
    try:
        policy = {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}
        group.prepare(policyEntry={"redeliveryPolicy": policy})
        letters = [died(group, n, do="raise" if n in _DEAD else "ok") for n in range(LETTERS)]
        group.cluster.produce(group.dead_letters, letters)
        group.worker()
        group.scheduler()
        yield group
    finally:
        group.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "step",
    [
        "commit:before:1",  # the job is not written
        "commit:after:1",  # nothing is sent
        "produce:after:14",  # in a chunk, whose progress is not written
        "commit:before:2",  # with its progress
        "commit:after:2",  # between two chunks
        "init:before:3",  # between two slices
    ],
)
def test_kafka_is_killed_at(own_kafka: EmbeddedKafka, own_group: Group, step: str) -> None:
    """The process is suspended at a step while Kafka is killed, and goes on while Kafka is away."""
    process = suspended_at(own_group, step, "redrive", "--yes", *RATE)
    with own_group.suspended():
        own_kafka.kill()
    time.sleep(_OUTAGE_S)
    own_kafka.start()
    _assert_all_are_sent_once(own_group, process)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seconds", [0.0, _LONG_S])
def test_kafka_is_away_while_letters_are_sent(own_kafka: EmbeddedKafka, own_group: Group, seconds: float) -> None:
    """After a short outage the job goes on by itself; after one that exceeds all time-outs it is resumed."""
    group = own_group
    program = COMMAND if not seconds else hasty.PROGRAM
    command = [*program, "dlq", "redrive", "--yes", "--rate", "20", "--config", str(group.file)]
    process = Process("dlq", command, os.environ, group.folder / "dlq.log")
    group.processes.append(process)
    until(lambda: sent(group) or not process.running, "letters are sent")
    with group.suspended():
        own_kafka.kill()
    time.sleep(seconds)
    own_kafka.start()
    assert 0 < sent(group).total() < LETTERS, "Kafka was away too late to prove anything"
    code = _assert_all_are_sent_once(group, process)
    assert (code != 0) == (seconds > 0), process.log


def _assert_all_are_sent_once(group: Group, process: Process) -> int:
    """Wait until the process ends, go on with its job if it could not, and compare the story of each letter."""
    code = process.wait(120)
    jobs = dlq_json(group, "jobs")["jobs"]
    if not jobs:
        assert code, process.log
        dlq_json(group, "redrive", "--yes")
    elif jobs[0]["state"] != "done":
        assert code, process.log
        assert dlq_json(group, "resume", jobs[0]["job"])["state"] == "done"
    until(lambda: dlq_json(group, "jobs")["jobs"][0]["unknown"] == 0, "all outcomes are known")
    group.settle()
    assert sent(group) == exactly(range(LETTERS))
    (job,) = dlq_json(group, "jobs")["jobs"]
    assert (job["sent"], job["recovered"], job["deadAgain"]) == (LETTERS, LETTERS - len(_DEAD), len(_DEAD))
    assert group.outputs() == exactly(set(range(LETTERS)) - _DEAD)
    letters = dlq_json(group, "list", "--each")["each"]
    stories = [(_number(each["sourceId"]), each["redrives"], each["state"]) for each in letters]
    expected = [(n, 0, "dead_again" if n in _DEAD else "recovered") for n in range(LETTERS)]
    assert sorted(stories) == sorted([*expected, *((n, 1, "waiting") for n in _DEAD)])
    assert dlq_json(group, "redrive", "--dry-run")["letters"] == len(_DEAD)
    return code


def _number(message_id: str) -> int:
    return int(message_id.rpartition("@")[2])
