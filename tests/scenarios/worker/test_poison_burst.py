"""A burst of records that all fail is dead-lettered in bounded memory."""

import os
from pathlib import Path

from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group

_NUMBER = 30_000
_VALUE_BYTES = 3500
_MOST_MIB = 120
"""An idle worker takes about 60 MiB; the burst takes 100 MiB, and its dead letters as much again."""


def test_a_poison_burst_does_not_exhaust_the_memory(group: Group) -> None:
    """A worker whose buffer is limited to 8 MiB rejects thirty thousand records."""
    group.prepare(
        partitions=4,
        handler={"callable": "tests.scenarios.handlers:refuse_all"},
        sources=[{"topic": group.source}],
        limits={"bufferBytes": 8 * 2**20, "batch": 10_000},
    )
    value = os.urandom(_VALUE_BYTES)
    group.cluster.produce(group.source, (Sent(value, b"k%d" % n, partition=n % 4) for n in range(_NUMBER)))
    worker = group.worker()
    with group.cluster.follow(group.dead_letters) as tail:
        tail.reach(_NUMBER, within_s=240)
        assert len(tail.records) == _NUMBER
    status = Path(f"/proc/{worker.pid}/status").read_text(encoding="ascii")
    [peak_kib] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    assert peak_kib < _MOST_MIB * 2**10
    group.stop()
    assert worker.log.count("refuse_all") < _NUMBER / 10, "the failures flood the log"
