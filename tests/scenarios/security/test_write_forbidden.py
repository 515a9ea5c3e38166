"""Where the right Write on a topic is missing, what needs the topic waits for the right, and all else goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.gatekeeper import Gatekeeper
from tests.scenarios.running import Group, Process, Role, exactly, script
from tests.scenarios.scraping import families, free_port, readiness, value_of
from tests.scenarios.waiting import until

_ALL_BUT_WRITE = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "DELETE")
_NOT_EVEN_DESCRIBE = ("DESCRIBE_CONFIGS",)
_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}}
_PARTITIONS = 4


@pytest.fixture
def group(gatekeeper: Gatekeeper, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A group that runs as the limited user."""
    found = Group(gatekeeper.cluster, unique, tmp_path)
    found.prepare(_PARTITIONS, policyEntry=_POLICY)
    found.configure(kafka=gatekeeper.kafka)
    try:
        yield found
    finally:
        found.close()


def _worker_and_scheduler(group: Group, mode: str) -> tuple[Process, int]:
    """Start both and return the worker and its port."""
    group.configure(mode=mode)
    group.scheduler()
    return _with_port(group, "worker")


def _with_port(group: Group, role: Role) -> tuple[Process, int]:
    port = free_port()
    return group.start(role, "one", f"metrics.port={port}", "metrics.host=127.0.0.1"), port


def _names_the_halt(process: Process, port: int, topic: str, others: set[str]) -> None:
    """Log, readiness and metrics name the topic and the right, and no other topic."""
    halted = "redelivery_halted_partitions"
    until(lambda: value_of(port, halted, refused_by=topic, cause="forbidden") >= 1, "the metric names the topic")
    # One answer: further partitions may halt between two.
    samples = [each for family in families(port).values() for each in family.samples if each.name == halted]
    seen = {(each.labels["refused_by"], each.labels["cause"]) for each in samples if each.value}
    assert seen == {(topic, "forbidden")}
    body = readiness(port)
    lines = [line for line in process.log.splitlines() if "grant the right Write" in line]
    for text in (body, *lines):
        assert f"grant the right Write on {topic}" in text
        assert not [other for other in others if f"Write on {other}" in text]
    assert lines


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("mode", "rights"),
    [
        pytest.param("transacted", _ALL_BUT_WRITE, id="transacted-describe"),
        pytest.param("transacted", _NOT_EVEN_DESCRIBE, id="transacted-nothing"),
        pytest.param("auto", _ALL_BUT_WRITE, id="auto-describe"),
        pytest.param("auto", _NOT_EVEN_DESCRIBE, id="auto-nothing"),
    ],
)
def test_a_dead_letter_topic(group: Group, gatekeeper: Gatekeeper, mode: str, rights: tuple[str, ...]) -> None:
    """One partition halts. The others go on and call few handlers twice; with the right it goes on by itself."""
    worker, port = _worker_and_scheduler(group, mode)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % _PARTITIONS) for n in range(8)])
    until(lambda: len(group.outputs()) == 8, "the first records are handled")

    gatekeeper.allow(group.dead_letters, *rights)
    rejected = {100, 120}
    halted = [script(n, ["reject"] if n in rejected else ["ok"], partition=0) for n in range(100, 150)]
    healthy = [script(n, ["ok"], partition=1 + n % 3) for n in range(200, 400)]
    group.cluster.produce(group.source, [*halted, *healthy])
    until(lambda: set(group.outputs()) >= {*range(200, 400)}, "the other partitions go on")
    _names_the_halt(worker, port, group.dead_letters, {group.source, group.output, group.ready})
    group.cluster.produce(group.source, [script(n, ["ok"], partition=1 + n % 3) for n in range(400, 600)])
    until(lambda: set(group.outputs()) >= {*range(400, 600)}, "the other partitions still go on")
    assert worker.running
    assert not group.dead()
    assert len(group.deliveries.began()) < 2 * (8 + 50 + 400)
    if mode == "transacted":
        assert set(group.outputs().values()) == {1}

    gatekeeper.allow(group.dead_letters, *_ALL_BUT_WRITE, "WRITE")
    group.settle()
    until(lambda: value_of(port, "redelivery_halted_partitions") == 0, "no partition is halted")
    group.stop()
    expected = {*range(8), *range(100, 150), *range(200, 600)} - rejected
    if mode == "transacted":
        assert group.outputs() == exactly(expected)
        assert group.dead() == exactly(rejected)
    assert set(group.outputs()) == expected
    letters = group.cluster.read(group.dead_letters)
    assert set(group.dead()) == rejected
    assert {letter.header("JMSXDeliveryCount") for letter in letters} == {"1"}


@pytest.mark.kafka
@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_an_output_topic(group: Group, gatekeeper: Gatekeeper, mode: str) -> None:
    """No record fails for it. Records without outputs, and dead letters of other partitions, go on."""
    gatekeeper.allow(group.output, *_ALL_BUT_WRITE)
    worker, port = _worker_and_scheduler(group, mode)
    rejected = set(range(1, 200, 20))
    does = [["reject"] if n in rejected else ["quiet"] if n % _PARTITIONS else ["ok"] for n in range(200)]
    group.cluster.produce(group.source, [script(n, do, partition=n % _PARTITIONS) for n, do in enumerate(does)])
    until(lambda: len(group.pending()) == 50, "the records without outputs are finished")
    _names_the_halt(worker, port, group.output, {group.source, group.dead_letters, group.ready})
    assert worker.running

    gatekeeper.allow(group.output, *_ALL_BUT_WRITE, "WRITE")
    group.settle()
    group.stop()
    assert set(group.outputs()) == set(range(0, 200, 4))
    assert set(group.dead()) == rejected
    if mode == "transacted":
        assert group.dead() == exactly(rejected)
    assert not group.cluster.read(group.tier("100ms"))
    assert {attempt for attempts in group.deliveries.attempts().values() for attempt in attempts} == {1}


@pytest.mark.kafka
@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_a_ready_topic(group: Group, gatekeeper: Gatekeeper, mode: str) -> None:
    """The scheduler dead-letters nothing; with the right the records are redelivered."""
    group.configure(mode=mode)
    group.worker()
    group.send([["raise", "ok"]] * 20)
    until(lambda: group.cluster.ends(group.tier("100ms")).values(), "the tier exists")
    until(lambda: len(group.cluster.read(group.tier("100ms"))) == 20, "the records wait in their tier")

    gatekeeper.allow(group.ready, *_ALL_BUT_WRITE)
    scheduler, port = _with_port(group, "scheduler")
    _names_the_halt(scheduler, port, group.ready, {group.source, group.dead_letters, group.output})
    assert scheduler.running
    assert not group.dead()

    gatekeeper.allow(group.ready, *_ALL_BUT_WRITE, "WRITE")
    group.settle()
    group.stop()
    assert not group.dead()
    assert set(group.outputs()) == set(range(20))
    assert {n: attempts[-1] for n, attempts in group.deliveries.attempts().items()} == dict.fromkeys(range(20), 2)


@pytest.mark.kafka
def test_the_journal(group: Group, gatekeeper: Gatekeeper) -> None:
    """Every write needs it, so all partitions halt. The worker does not end, and nothing is lost or written twice."""
    group.configure(journal=True)
    group.apply()
    gatekeeper.allow(group.journal, *_ALL_BUT_WRITE)
    worker, port = _worker_and_scheduler(group, "transacted")
    group.send([["ok"], ["raise", "ok"]] * 20)
    _names_the_halt(worker, port, group.journal, {group.source, group.output, group.dead_letters})
    assert worker.running
    assert not group.outputs()

    gatekeeper.allow(group.journal, *_ALL_BUT_WRITE, "WRITE")
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(40))
    assert not group.dead()
