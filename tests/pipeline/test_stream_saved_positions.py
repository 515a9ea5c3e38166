"""A position that a worker saved when it stopped is not used after a query has served the group."""

from datetime import timedelta

from kafka_redelivery.pipeline.stream.membership import membership
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.start_offsets import partition_counts, partitions_of, start_offsets
from kafka_redelivery.topology.config.loading import load_settings
from tests.pipeline.streaming import prepare
from tests.pipeline.test_membership import _commit
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until


def test_what_a_query_has_handled_is_not_handled_again(group: Group) -> None:
    """The query is only its driver's start and a commit of a task. The group's offsets expire: they are deleted."""
    prepare(group, leaveOnStop=True)
    group.send([["ok"]] * 10)
    group.worker()
    until(lambda: group.outputs() == exactly(range(10)), "the worker has handled the first records")
    group.stop()
    group.send([["ok"]] * 10, first=10)
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    wanted = partitions_of(settings, partition_counts(settings))
    with membership(settings, wanted, Shutdown(timedelta(seconds=25))) as member:
        start_offsets(settings, wanted, member.member(), ReadTopics.of(settings))
        for (topic, number), end in group.cluster.ends(group.source).items():
            if number == 0:
                _commit(settings, topic, end, member.member(), task=0)
    group.cluster.delete_group(group.name)
    worker = group.worker()
    until(lambda: "no committed offset" in worker.own_log or "halted" in worker.own_log, "the worker owns partitions")
    assert f"{group.source}-0 has no committed offset and goes on at the saved one" not in worker.own_log
