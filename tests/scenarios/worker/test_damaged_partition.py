"""A partition that Kafka cannot deliver halts alone, and goes on by itself when it can be fetched again."""

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.commands import topology
from tests.scenarios.damage import Damage, damaged
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.scraping import free_port, get, readiness, value_of
from tests.scenarios.waiting import until

_HALTED = "redelivery_halted_partitions"


def _send(group: Group, partition: int, *numbers: int) -> None:
    """Write each record in a batch of its own."""
    for n in numbers:
        group.cluster.produce(group.source, [script(n, ["ok"], partition=partition)])


@pytest.mark.parametrize("damage", ["value", "length", "offset"])
def test_a_worker_leaves_a_damaged_partition_alone(group: Group, kafka: EmbeddedKafka, damage: Damage) -> None:
    """The client finds a wrong checksum, the broker a wrong length. All heal, and no record is lost or doubled.

    The error of a batch with a wrong offset names that one. The records of the batch would be skipped there.
    """
    port = free_port()
    group.prepare(metrics={"port": port, "host": "127.0.0.1"})
    _send(group, 0, *range(5))
    _send(group, 1, *range(100, 105))
    with damaged(kafka, group.source, 0, 2, damage):
        worker = group.worker()
        labels = {"refused_by": group.source, "cause": "unfetchable"}
        until(lambda: value_of(port, _HALTED, **labels) == 1, "the partition is halted")
        until(lambda: f"{group.source}-0 is halted: it cannot be fetched" in readiness(port), "the probe names it")
        assert "kafka-delete-records.sh" in readiness(port)
        for first in (105, 110):
            _send(group, 1, *range(first, first + 5))
            until(lambda: first + 4 in group.outputs(), "the other partition goes on")  # noqa: B023 - called at once
        assert set(group.outputs()) <= {0, 1, *range(100, 115)}
        assert worker.running
    until(lambda: group.outputs() == exactly([*range(5), *range(100, 115)]), "the partition goes on")
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    until(lambda: "halted" not in readiness(port), "the probe names no halted partition")
    group.stop()
    assert group.outputs() == exactly([*range(5), *range(100, 115)])


def test_damaged_records_can_be_given_up(group: Group, kafka: EmbeddedKafka) -> None:
    """Once they are deleted, the partition goes on at the log start, without a restart."""
    port = free_port()
    group.prepare(partitions=1, metrics={"port": port, "host": "127.0.0.1"})
    _send(group, 0, *range(5))
    with damaged(kafka, group.source, 0, 2, "value"):
        worker = group.worker()
        until(lambda: value_of(port, _HALTED, cause="unfetchable") == 1, "the partition is halted")
        group.cluster.delete_before(group.source, 0, 3)
        until(lambda: value_of(port, _HALTED, cause="deleted") == 1, "the next offset is deleted")
        assert value_of(port, _HALTED) == 1
        assert topology("apply", "--accept-loss", file=group.file).code == 0
        until(lambda: {3, 4} <= set(group.outputs()), "the partition goes on behind them")
    assert worker.running
    group.stop()
    assert group.outputs() == exactly([0, 1, 3, 4])


def test_a_scheduler_leaves_a_damaged_partition_alone(group: Group, kafka: EmbeddedKafka) -> None:
    """Redeliveries of other partitions are released meanwhile."""
    port = free_port()
    group.prepare(metrics={})
    worker = group.worker()
    group.cluster.produce(group.source, [script(0, ["raise", "ok"], partition=0)])
    tier = group.tier("200ms")
    until(lambda: sum(group.cluster.ends(tier).values()) > 0, "a redelivery waits")
    [number] = [number for (_, number), end in group.cluster.ends(tier).items() if end]
    group.configure(metrics={"port": port, "host": "127.0.0.1"})
    with damaged(kafka, tier, number, 0, "value"):
        group.scheduler()
        until(lambda: value_of(port, _HALTED, refused_by=tier, cause="unfetchable") == 1, "the partition is halted")
        group.cluster.produce(group.source, [script(1, ["raise", "ok"], partition=1)])
        until(lambda: 1 in group.outputs(), "the other partition goes on")
    until(lambda: group.outputs() == exactly([0, 1]), "the partition goes on")
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    worker.stop()
    group.stop()


def test_a_damaged_dead_letter_does_not_end_the_count_of_the_others(group: Group, kafka: EmbeddedKafka) -> None:
    """Its partition is halted, and its dead letters are counted when they can be fetched."""
    port = free_port()
    group.prepare()
    worker = group.worker()
    for n, partition in enumerate((0, 0, 1)):
        group.cluster.produce(group.source, [script(n, ["reject"], partition=partition)])
        until(lambda: len(group.dead()) == n + 1, "each dead letter is in a batch of its own")  # noqa: B023 - at once
    group.configure(metrics={"port": port, "host": "127.0.0.1"})
    depth = "redelivery_dead_letter_depth"
    with damaged(kafka, group.dead_letters, 0, 0, "value"):
        group.scheduler()
        labels = {"refused_by": group.dead_letters, "cause": "unfetchable"}
        until(lambda: value_of(port, _HALTED, **labels) == 1, "the partition is halted")
        until(lambda: value_of(port, depth) == 1, "the other partition is counted")
        until(lambda: get(port, "/readyz")[0] == 200, "the scheduler has its tiers")
        text = f"{group.dead_letters}-0 is halted: it cannot be fetched"
        until(lambda: text in readiness(port), "the probe names it")
        group.cluster.produce(group.source, [script(3, ["reject"], partition=1)])
        until(lambda: value_of(port, depth) == 2, "the other partition goes on")
        assert value_of(port, "redelivery_dead_letter_unread", dead_letter_topic=group.dead_letters) > 0
    until(lambda: value_of(port, depth) == 4, "all are counted")
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    until(lambda: "halted" not in readiness(port), "the probe names no halted partition")  # it follows the metric
    worker.stop()
    group.stop()
