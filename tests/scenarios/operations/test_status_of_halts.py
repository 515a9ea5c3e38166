"""`redelivery status` names what halts partitions of running processes, and `topology check` the property to change."""

import json
import os
import signal

import pytest

from kafka_redelivery.consumers.operations import status
from kafka_redelivery.topology import exit_codes
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import in_process, topology
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def _faults(group: Group) -> str:
    done = in_process("status", "--json", file=group.file)
    faults: list[str] = json.loads(done.out)["faults"]
    assert (done.code == exit_codes.OK) == (not faults)
    return "\n".join(faults)


def test_a_compacted_dead_letter_topic(group: Group) -> None:
    """The worker reports it within seconds, and withdraws it when it goes on."""
    group.prepare(partitions=1)
    worker = group.worker()
    group.scheduler()
    until(lambda: " reads " in worker.log, "the worker runs")  # at a start, the change below is refused
    until(lambda: not _faults(group), "both have joined")
    group.cluster.alter(group.dead_letters, cleanup_policy="compact")
    group.cluster.produce(group.source, [Sent(b'{"n": 0, "do": ["reject"]}')])
    until(lambda: f"worker w1: {group.source}-0 is halted at offset 0" in _faults(group), "status names it")
    checked = topology("check", file=group.file)
    refused = [line for line in checked.out.splitlines() if line.startswith("refuse")]
    assert (checked.code, len(refused)) == (exit_codes.FAILED, 1), checked.out
    assert "sets cleanup.policy=delete" in checked.out
    group.cluster.alter(group.dead_letters, cleanup_policy="delete")
    until(lambda: not _faults(group), "it goes on")
    group.stop()
    assert group.dead() == {0: 1}


def test_a_scheduler_that_hangs(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a member until its session ends. A tier is a fault when its first record is long overdue."""
    monkeypatch.setattr(status, "_OVERDUE_MS", 1000)
    group.prepare(partitions=1)
    group.worker()
    scheduler = group.scheduler()
    until(lambda: not _faults(group), "both have joined")
    os.kill(scheduler.pid, signal.SIGSTOP)
    group.send([["raise", "ok"]])
    until(lambda: f"{group.tier('200ms')}: its first record was due at" in _faults(group), "status names the tier")
    os.kill(scheduler.pid, signal.SIGCONT)
    until(lambda: not _faults(group), "it is released")
    group.settle()
    group.stop()
