"""A scheduler whose next offset in a tier is deleted halts that partition alone, and goes on without a restart."""

import os
import signal

from tests.scenarios.commands import topology
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until

_HALTED = "redelivery_halted_partitions"


def _fail_once(group: Group, n: int, partition: int) -> None:
    """Send a record that waits in the tier once, and wait until it is there."""
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=partition)])
    until(lambda: n in map(number, group.cluster.read(group.tier("200ms"))), f"record {n} is in the tier")


def test_deleted_records_of_a_tier_halt_their_partition_alone(group: Group) -> None:
    """The other partition is released meanwhile. Nothing behind the deleted records is lost or doubled."""
    port, tier = free_port(), group.tier("200ms")
    group.prepare()
    group.worker()
    scheduler = group.start("scheduler", "s1", f"metrics.port={port}", "metrics.host=127.0.0.1")
    _fail_once(group, 0, partition=0)
    until(lambda: 0 in group.outputs(), "the scheduler releases records")
    os.kill(scheduler.pid, signal.SIGSTOP)
    _fail_once(group, 1, partition=0)  # may be in the answer to the fetch that is under way
    _fail_once(group, 2, partition=0)
    group.cluster.delete_before(tier, 0, group.cluster.ends(tier)[tier, 0])
    os.kill(scheduler.pid, signal.SIGCONT)
    until(lambda: value_of(port, _HALTED, refused_by=tier, cause="deleted") == 1, "the partition is halted")
    _fail_once(group, 3, partition=0)
    _fail_once(group, 4, partition=1)
    until(lambda: 4 in group.outputs(), "the other partition goes on")
    for text in (readiness(port), scheduler.log):
        assert f"{tier}-0 is halted" in text
        assert "redelivery topology apply --accept-loss" in text

    moved = topology("apply", "--accept-loss", file=group.file)
    assert moved.code == 0, moved.err
    assert f"~ {tier}: offset of {group.name}.scheduler in partition 0:" in moved.out
    until(lambda: 3 in group.outputs(), "the halted partition goes on")
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    assert scheduler.running
    group.stop()
    outputs = group.outputs()
    del outputs[1]
    assert outputs == exactly([0, 3, 4])
