"""With ``auto.offset.reset: latest`` a query reads a partition that was added to its source from its start."""

from datetime import timedelta

from kafka_redelivery.pipeline.stream.membership import membership
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.start_offsets import partition_counts, partitions_of, start_offsets
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition
from tests.pipeline.streaming import prepare
from tests.scenarios.running import Group, script


def test_what_is_written_while_no_query_runs_is_not_skipped(group: Group) -> None:
    """As a worker does (tests/scenarios/topology/test_added_partitions.py)."""
    prepare(group, kafka={"auto.offset.reset": "latest"})
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    wanted = partitions_of(settings, partition_counts(settings))
    with membership(settings, wanted, Shutdown(timedelta(seconds=25))) as member:
        start_offsets(settings, wanted, member.member(), ReadTopics.of(settings))
    group.cluster.grow(group.source, 3)
    group.apply()
    group.cluster.produce(group.source, [script(n, ["ok"], partition=2) for n in range(50)])
    wanted = partitions_of(settings, partition_counts(settings))
    with membership(settings, wanted, Shutdown(timedelta(seconds=25))) as member:
        starts = start_offsets(settings, wanted, member.member(), ReadTopics.of(settings))
    assert starts[Partition(group.source, 2)] == 0
