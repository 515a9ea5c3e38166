"""Large records that wait in many partitions of several tiers do not fill the memory of a scheduler."""

import re
import time
from pathlib import Path

import pytest

from kafka_redelivery.topology.policy.decision import Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import read_due, retry_headers
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, Process
from tests.scenarios.waiting import until

PARTITIONS = 16
TIERS = ("20s", "40s", "80s", "160s")
SIZE = 900_000
WAIT_MS = 20_000
BUFFER_BYTES = 16 * 2**20
TOTAL = PARTITIONS * len(TIERS) * SIZE
POLICY = {
    "maximumRedeliveries": 4,
    "initialRedeliveryDelay": 20_000,
    "redeliveryDelay": 20_000,
    "useExponentialBackOff": True,
    "backOffMultiplier": 2,
}


def _peak_bytes(process: Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) * 1024


def _waiting(group: Group, partition: int, due_ms: int) -> Sent:
    """A record that is small until it is decompressed."""
    lineage = Lineage(group.source, partition, 0, due_ms - WAIT_MS, 1)
    headers = retry_headers(lineage, group.name, (), Retry(WAIT_MS, due_ms))
    return Sent(b"x" * SIZE, b"key", partition=partition, headers=headers)


@pytest.mark.long
def test_large_retries_do_not_fill_the_memory(group: Group) -> None:
    """Each of 64 partitions has one. Those that leave last are read again when it is time, and all leave once."""
    group.prepare(
        PARTITIONS,
        limits={"bufferBytes": BUFFER_BYTES},
        policyEntry={"redeliveryPolicy": POLICY},
        kafka={"compression.type": "lz4"},
    )
    scheduler = group.scheduler()
    until(lambda: "reads the group's tiers" in scheduler.log, "the scheduler runs")
    until(lambda: any(group.cluster.members(f"{group.name}.scheduler").values()), "it has partitions")
    before = _peak_bytes(scheduler)

    now_ms = time.time_ns() // 1_000_000
    for at, tier in enumerate(TIERS):
        due_ms = now_ms + WAIT_MS + 2_000 * at
        group.cluster.produce(group.tier(tier), [_waiting(group, number, due_ms) for number in range(PARTITIONS)])
    with group.cluster.follow(group.ready) as tail:
        tail.reach(PARTITIONS * len(TIERS))
    peak = _peak_bytes(scheduler) - before
    group.stop()

    released = group.cluster.read(group.ready)
    assert len(released) == PARTITIONS * len(TIERS)
    assert all(record.timestamp_ms >= (read_due(record.headers) or 0) for record in released)
    assert peak < TOTAL, f"{peak:,} bytes more than before"
