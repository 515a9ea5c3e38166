"""The query leaves out a partition whose committed offset has expired, unless it saved its position when it ended."""

import json

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import StreamHaltedError
from tests.pipeline.streaming import LONG_S, prepare, run, running
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import topology
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.scraping import free_port, get, value_of
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_run_neither_skips_nor_repeats_and_names_the_command(spark: SparkSession, group: Group) -> None:
    """With ``auto.offset.reset: latest`` a start at the end would skip what was sent meanwhile."""
    prepare(group, kafka={"auto.offset.reset": "latest"})
    _handle_first(group, spark)
    _expire(group, 0, 1)
    _send(group, range(20, 40))

    run(group, spark)

    assert group.outputs() == exactly(range(40)), "it goes on at the positions that the first run saved"
    _drop_saved(group)
    _expire(group, 0)
    _send(group, range(40, 60))

    with pytest.raises(StreamHaltedError) as halted:
        run(group, spark)

    for text in (f"{group.source}-0 is halted", "its committed offset has expired", "topology apply --accept-repeats"):
        assert text in str(halted.value)
    group.cluster.wait_for_markers(group.output)
    assert group.outputs() == exactly([*range(40), *range(41, 60, 2)])

    _accept_repeats(group)
    run(group, spark)

    assert group.outputs() == {n: 2 if n % 2 == 0 and n < 40 else 1 for n in range(60)}


@pytest.mark.long
def test_a_running_query_goes_on_without_the_partition(spark: SparkSession, group: Group) -> None:
    """The log, the metrics and the readiness probe name it, and it goes on without a restart."""
    port = free_port()
    prepare(group, metrics={"port": port, "host": "127.0.0.1"})
    _handle_first(group, spark)
    _drop_saved(group)
    _expire(group, 0)
    with running(group, spark):
        until(lambda: value_of(port, "redelivery_halted_partitions") == 1, "it is halted", within_s=LONG_S)
        assert value_of(port, "redelivery_halted_partitions", refused_by=group.source, cause="expired") == 1
        named = f"{group.source}-0 is halted: its committed offset has expired"
        until(lambda: (answer := get(port, "/readyz"))[0] == 200 and named in answer[1], "it is ready and names it")
        _send(group, range(20, 40))
        wanted = exactly([*range(20), *range(21, 40, 2)])
        until(lambda: group.outputs() == wanted, "the other partition is handled", within_s=LONG_S)

        _accept_repeats(group)
        until(lambda: {*range(20, 40)} <= group.outputs().keys(), "the partition goes on", within_s=LONG_S)
        until(lambda: value_of(port, "redelivery_halted_partitions") == 0, "none is halted", within_s=LONG_S)
    assert group.outputs() == {n: 2 if n % 2 == 0 and n < 20 else 1 for n in range(40)}


def _handle_first(group: Group, spark: SparkSession) -> None:
    """Commit the start of all partitions; then send 20 records and handle them."""
    run(group, spark)
    _send(group, range(20))
    run(group, spark)
    assert group.outputs() == exactly(range(20))


def _send(group: Group, numbers: range) -> None:
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in numbers])


def _expire(group: Group, *numbers: int) -> None:
    """Delete the committed offsets of these partitions of the source, as Kafka does after some days without members."""
    kept = group.cluster.committed(group.name, group.source, group.ready)
    until(lambda: not group.cluster.members(group.name), "no process runs")
    group.cluster.delete_group(group.name)
    for (topic, number), (offset, _) in kept.items():
        if topic != group.source or number not in numbers:
            group.cluster.commit(group.name, topic, number, offset)


def _drop_saved(group: Group) -> None:
    """Make the control topic what it is when the last process was killed."""
    control = f"{group.name}.control"
    records = {record.key: json.loads(record.value or b"") for record in group.cluster.read(control)}
    saved = {key: fields for key, fields in records.items() if fields.pop("metadata", None) is not None}
    assert len(saved) == 4, "source and ready topic"
    group.cluster.produce(control, [Sent(json.dumps(fields).encode(), key) for key, fields in saved.items()])


def _accept_repeats(group: Group) -> None:
    moved = topology("apply", "--accept-repeats", file=group.file)
    assert moved.code == 0, moved.err
