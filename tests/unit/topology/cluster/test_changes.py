"""What must be done to a cluster, and that nothing more is done."""

from dataclasses import replace

from kafka_redelivery.topology.cluster.changes import (
    AlterConfig,
    Changes,
    CommitFirst,
    CreateTopic,
    GrowTopic,
    MoveToLogStart,
    changes,
)
from kafka_redelivery.topology.cluster.check import check
from kafka_redelivery.topology.cluster.facts import Bounds, ClusterFacts, TopicFacts
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from tests.unit.topology.clusters import (
    as_planned,
    planned,
    source,
    with_config,
    with_offsets,
    with_topic,
    without_topic,
)

PLAN = planned()
CLUSTER = as_planned(PLAN)
TIER = "billing.retry.1s"


def test_an_empty_cluster_needs_everything() -> None:
    """Every topic is created, with a committed offset of 0 in each partition that a group reads."""
    todo = changes(PLAN, ClusterFacts(topics=PLAN.sources))
    assert [change.topic.name for change in todo.create] == [topic.name for topic in PLAN.topics]
    assert (todo.grow, todo.alter) == ((), ())
    assert {(first.group, first.topic) for first in todo.commit} == {
        ("billing.scheduler", TIER),
        ("billing", "billing.ready.orders"),
    }
    assert {first.offset for first in todo.commit} == {0}
    assert len(todo.commit) == 8


def test_a_good_cluster_needs_nothing() -> None:
    """Nothing to do is no change at all."""
    todo = changes(PLAN, CLUSTER)
    assert not todo
    assert list(todo) == []


def test_a_partition_without_a_leader_gets_no_first_offset() -> None:
    """Where its log starts is unknown, so the offset 0 could be one that was deleted."""
    bounds = {number: CLUSTER.topics[TIER].bounds[number] for number in (0, 1, 3)}
    new = replace(CLUSTER, control=ControlState(exists=True))
    found = with_offsets(with_topic(new, TIER, bounds=bounds, leaderless=(2,)), "billing.scheduler", {(TIER, 2): None})
    assert not changes(PLAN, found)


def test_a_deleted_offset_is_moved_only_if_the_loss_is_accepted() -> None:
    """Of a source and of internal topics; offsets within their log stay."""
    deleted = with_topic(CLUSTER, "orders", bounds=dict.fromkeys(range(4), Bounds(6, 10)))
    deleted = with_offsets(deleted, "billing", {("orders", 0): 6, ("orders", 1): 3})
    deleted = with_offsets(deleted, "billing.scheduler", {(TIER, 2): 4})
    assert not changes(PLAN, deleted)
    todo = changes(PLAN, deleted, accept_loss=True)
    assert list(todo) == [
        MoveToLogStart("billing", "orders", 1, 3, 6),
        MoveToLogStart("billing.scheduler", TIER, 2, 4, 5),
    ]
    assert todo.document()[0] == {
        "change": "move",
        "group": "billing",
        "topic": "orders",
        "partition": 1,
        "before": 3,
        "offset": 6,
    }


def test_more_than_needed_is_left_alone() -> None:
    """Nothing is made smaller: partitions, retention, sizes."""
    more = with_topic(CLUSTER, "DLQ.orders", partitions=20)
    for config, value in (("max.message.bytes", "99999999"), ("min.insync.replicas", "3")):
        more = with_config(more, "DLQ.orders", config, value)
    assert not changes(PLAN, more)


def test_a_source_that_grew() -> None:
    """All internal topics grow with it, and the new partitions get committed offsets."""
    grown = planned("group: billing\nkafka: {bootstrap.servers: x}\nsources: [{topic: orders}]\n", source(partitions=6))
    todo = changes(grown, CLUSTER)
    assert todo.grow == tuple(GrowTopic(topic.name, 4, 6) for topic in grown.topics if topic.partitions > 1)
    assert [(first.topic, first.partition, first.offset) for first in todo.commit] == [
        (TIER, 4, 0),
        (TIER, 5, 0),
        ("billing.ready.orders", 4, 0),
        ("billing.ready.orders", 5, 0),
    ]


def test_a_property_that_would_lose_records_is_changed() -> None:
    """Only that property, of that topic."""
    todo = changes(PLAN, with_config(CLUSTER, TIER, "cleanup.policy", "compact"))
    assert list(todo) == [AlterConfig(TIER, "cleanup.policy", "compact", "delete")]


def test_an_offset_that_may_have_expired_is_replaced_only_if_repeats_are_accepted() -> None:
    """It may be unknown to the control topic, or there may be none."""
    missing = with_offsets(CLUSTER, "billing.scheduler", {(TIER, 2): None})
    for control in (ControlState(), ControlState(exists=True, committed={(TIER, 2): 5})):
        cluster = replace(missing, control=control)
        assert list(changes(PLAN, cluster, accept_loss=True)) == []
        moved = MoveToLogStart("billing.scheduler", TIER, 2, None, 5)
        assert list(changes(PLAN, cluster, accept_repeats=True)) == [moved]


def test_a_saved_position_is_left_to_the_next_owner() -> None:
    """It commits that position, so nothing is repeated."""
    missing = with_offsets(CLUSTER, "billing", {("billing.ready.orders", 1): None})
    state = ControlState(
        exists=True,
        committed=dict.fromkeys([("orders", 1), ("billing.ready.orders", 1)], 5),
        saved=dict.fromkeys([("orders", 1), ("billing.ready.orders", 1)], Checkpoint(5, "")),
    )
    saved = replace(missing, control=state)
    assert list(changes(PLAN, saved, accept_repeats=True)) == []
    assert check(PLAN, saved) == ()


def test_an_expired_offset_of_a_source() -> None:
    """It is known only by the control topic: a source has no offset before the group begins."""
    born = replace(CLUSTER, control=ControlState(exists=True, committed={("orders", 1): 5}))
    assert list(changes(PLAN, born)) == []
    moved = [MoveToLogStart("billing", "orders", 1, None, 0)]
    assert list(changes(PLAN, born, accept_repeats=True)) == moved
    assert list(changes(PLAN, CLUSTER, accept_repeats=True)) == []


def test_a_partition_that_the_group_has_never_read_is_not_read_again() -> None:
    """The control topic shows that none of its records was processed."""
    missing = with_offsets(CLUSTER, "billing.scheduler", {(TIER, 2): None, (TIER, 3): None})
    known = replace(missing, control=ControlState(exists=True, committed={(TIER, 3): 5}))
    assert list(changes(PLAN, known)) == [CommitFirst("billing.scheduler", TIER, 2, 5)]


def test_an_empty_partition_is_not_read_again() -> None:
    """Start and end are the same: there is nothing to repeat."""
    empty = with_topic(CLUSTER, TIER, bounds=dict.fromkeys(range(4), Bounds(8, 8)))
    todo = changes(PLAN, with_offsets(empty, "billing.scheduler", {(TIER, 2): None}))
    assert list(todo) == [CommitFirst("billing.scheduler", TIER, 2, 8)]


def test_a_topic_made_anew_is_created() -> None:
    """A topic that is gone is created, and where offsets are left over none is committed."""
    todo = changes(PLAN, without_topic(CLUSTER, TIER))
    assert [type(change) for change in todo] == [CreateTopic]


def test_a_retired_tier_is_mended_only_while_it_holds_records() -> None:
    """Its retention is lifted, but an empty one's properties are left alone."""
    old = TopicFacts(
        name="billing.retry.9s",
        partitions=1,
        replication_factor=1,
        configs={"cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "-1"},
        bounds={0: Bounds(0, 3)},
    )
    cluster = replace(CLUSTER, topics={**CLUSTER.topics, old.name: old})
    cluster = replace(cluster, control=ControlState(exists=True))
    offset = CommitFirst("billing.scheduler", old.name, 0, 0)
    assert list(changes(PLAN, cluster)) == [offset]
    holding = replace(cluster, holding=frozenset({old.name}))
    assert list(changes(PLAN, holding)) == [AlterConfig(old.name, "retention.ms", "1000", "-1"), offset]


def test_changes_as_plain_data() -> None:
    """Each change is one object that names itself."""
    todo = Changes(
        (CreateTopic(PLAN.topics[0]),),
        (GrowTopic("a", 1, 2),),
        (AlterConfig("a", "b", None, "c"),),
        (CommitFirst("g", "a", 0, 5),),
    )
    assert [each["change"] for each in todo.document()] == ["create", "grow", "alter", "commit"]
    assert todo.document()[3] == {
        "change": "commit",
        "group": "g",
        "topic": "a",
        "partition": 0,
        "offset": 5,
    }
