"""Retention overtakes the group: the query leaves that partition out, and goes on when an operator accepts the loss."""

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import StreamHaltedError
from tests.pipeline.streaming import LONG_S, Gate, prepare, run, running
from tests.scenarios.commands import topology
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.scraping import free_port, get, value_of
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]


def test_a_run_handles_the_other_partitions_and_names_the_command(spark: SparkSession, group: Group) -> None:
    """With ``--available-now`` the run ends with an error about that partition alone, also without the checkpoint."""
    prepare(group)
    _send(group, range(10), partition=0)
    _send(group, range(100, 105), partition=1)
    group.cluster.commit(group.name, group.source, 0, 0)
    group.cluster.delete_before(group.source, 0, 5)

    with pytest.raises(StreamHaltedError) as halted:
        run(group, spark)

    for text in (f"{group.source}-0 is halted", "its next offset 0 does not exist", "topology apply --accept-loss"):
        assert text in str(halted.value)
    group.cluster.wait_for_markers(group.output)
    assert group.outputs() == exactly(range(100, 105))

    _accept_loss(group)
    run(group, spark)

    assert group.outputs() == exactly([*range(5, 10), *range(100, 105)])


@pytest.mark.long
def test_a_running_query_goes_on_without_the_partition(spark: SparkSession, group: Group) -> None:
    """Its next micro-batch was deleted: the other partition is handled, and later this one, without a restart.

    That the storage of the sink's table is away, also while the query is started again, changes nothing.
    """
    port = free_port()
    prepare(
        group,
        metrics={"port": port, "host": "127.0.0.1"},
        kafka={"spark.max.partition.fetch.bytes": 1},  # one batch of records, so that no more is in memory
        pipeline={"maxOffsetsPerTrigger": 10, "sink": {"topic": group.output, "path": "table"}},
    )
    (group.folder / "table").touch()  # where a folder has to be
    gate = Gate(group, "gate")
    group.cluster.produce(group.source, [script(0, [gate.step], partition=0)])
    for first in range(1, 50, 7):
        _send(group, range(first, first + 7), partition=0)
    with running(group, spark):
        gate.reached()
        group.cluster.delete_before(group.source, 0, 40)
        gate.open()
        until(lambda: value_of(port, "redelivery_halted_partitions") == 1, "it is halted", within_s=LONG_S)
        _send(group, range(100, 105), partition=1)
        until(lambda: {*range(100, 105)} <= group.outputs().keys(), "the other one is handled", within_s=LONG_S)
        # It is not ready for a moment after it has joined the group again.
        problems = ("topology apply --accept-loss", "the query of pipeline.sink failed")
        until(lambda: _is_ready_with(port, problems), "it is ready again and names both problems")
        held = [n for n in group.outputs() if n < 40]
        assert sorted(held) == list(range(len(held)))
        assert len(held) < 40

        _accept_loss(group)
        wanted = exactly([*held, *range(40, 50), *range(100, 105)])
        until(lambda: group.outputs() == wanted, "the halted partition goes on", within_s=LONG_S)
        until(lambda: value_of(port, "redelivery_halted_partitions") == 0, "none is halted")


def _is_ready_with(port: int, problems: tuple[str, ...]) -> bool:
    status, text = get(port, "/readyz")
    return status == 200 and all(each in text for each in problems)


def _send(group: Group, numbers: range, *, partition: int) -> None:
    group.cluster.produce(group.source, [script(n, ["ok"], partition=partition) for n in numbers])


def _accept_loss(group: Group) -> None:
    moved = topology("apply", "--accept-loss", file=group.file)
    assert moved.code == 0, moved.err
