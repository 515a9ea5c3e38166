"""A missing committed offset in an internal topic is refused with a fix, never reset silently."""

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import topology
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import LONG_S, until


def test_a_deleted_group_without_a_control_topic_is_refused_at_start(group: Group) -> None:
    """The start is refused and the error has the fix; after the fix, the records in the ready topic are delivered."""
    group.prepare()
    group.cluster.delete(f"{group.name}.control")
    group.send([["raise", "ok"]] * 10)
    worker = group.worker(None)
    until(lambda: len(group.cluster.read(group.tier("200ms"))) == 10, "all records wait")
    worker.stop()
    scheduler = group.scheduler(None)
    until(lambda: len(group.cluster.read(group.ready)) == 10, "all records are in the ready topic")
    scheduler.stop()
    group.cluster.delete_group(group.name)

    refused = group.worker(None)
    assert refused.wait(LONG_S) == exit_codes.TOPOLOGY_REFUSED
    assert f"group {group.name} has no committed offset" in refused.log
    assert "redelivery topology apply --accept-repeats" in refused.log
    assert group.cluster.committed(group.name, group.ready) == {}

    for _ in range(2):  # the first one creates the control topic, from which the second one knows of the loss
        topology("apply", file=group.file)
        assert group.cluster.committed(group.name, group.ready) == {}
    assert topology("apply", "--accept-repeats", file=group.file).code == exit_codes.OK
    group.cluster.commit(group.name, group.source, 0, group.cluster.ends(group.source)[group.source, 0])
    group.cluster.commit(group.name, group.source, 1, group.cluster.ends(group.source)[group.source, 1])
    group.worker(None)
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(10))


def test_a_partition_that_is_added_by_hand_gets_its_first_offset(group: Group) -> None:
    """The worker that is assigned it commits the log start, because the partition is empty."""
    group.prepare()
    worker = group.worker()
    group.send([["ok"]] * 10)
    group.settle()
    group.cluster.grow(group.ready, 3)
    until(lambda: len(group.cluster.committed(group.name, group.ready)) == 3, "the first offset is committed")
    assert worker.running
    group.stop()
