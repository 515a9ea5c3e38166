"""What `topology apply` writes to the control topic."""

from dataclasses import replace

from kafka_redelivery.topology.cluster.changes import FEATURE_LEVEL, ForgetTopic, changes, control_records, withdrawals
from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.plan import default_width_of
from kafka_redelivery.topology.wire.control import (
    ControlState,
    control_state,
    first_offset_record,
    level_record,
    source_record,
    tier_record,
    width_record,
    withdrawn_former_record,
    withdrawn_records,
)
from tests.unit.topology.clusters import ONE_SOURCE, as_planned, planned, source, with_offsets

PLAN = planned()
NEW = ClusterFacts(topics=PLAN.sources)
NOW = 1_700_000_000_000


def test_a_new_group_begins_with_all_partitions_of_its_source() -> None:
    """And with its tiers and the newest features. No partition is born before the group commits an offset in it."""
    assert list(control_records(PLAN, NEW, NOW)) == [
        level_record(FEATURE_LEVEL, NOW),
        source_record("orders", 4, NOW),
        tier_record("billing.retry.1s", None, NOW),
    ]


def test_a_new_group_whose_control_topic_exists_already() -> None:
    """Strimzi made the topic before, or an apply ended when it had made topics. A member makes the group old."""
    empty = ClusterFacts(topics=PLAN.sources, control=control_state([]))
    assert list(control_records(PLAN, empty, NOW)) == list(control_records(PLAN, NEW, NOW))
    for begun in (source_record("orders", 4, NOW), first_offset_record("orders", 0, 3, NOW)):
        old = replace(empty, control=control_state([begun]))
        assert level_record(FEATURE_LEVEL, NOW) not in set(control_records(PLAN, old, NOW))
    committed = with_offsets(empty, "billing", {("orders", 0): 3})
    assert level_record(FEATURE_LEVEL, NOW) not in set(control_records(PLAN, committed, NOW))


def test_a_new_group_keeps_the_default_width_of_its_time() -> None:
    """It is written once. A group that began without one never gets one."""
    new = planned(ONE_SOURCE, source(partitions=300), default_width=24)
    records = list(control_records(new, NEW, NOW))
    assert width_record(24, NOW) in records
    known = replace(NEW, control=control_state(records))
    assert default_width_of(new, known) == 24
    assert list(control_records(new, known, NOW)) == []
    older = replace(NEW, control=control_state(control_records(PLAN, NEW, NOW)))
    assert default_width_of(PLAN, older) is None


def test_a_group_that_is_older_than_its_control_topic() -> None:
    """Its partitions with an offset are born; a source partition behind them was added since it began."""
    cluster = with_offsets(ClusterFacts(topics=PLAN.sources), "billing", {("orders", 0): 3, ("orders", 1): 0})
    assert set(control_records(PLAN, cluster, NOW)) == {
        source_record("orders", 2, NOW),
        first_offset_record("orders", 0, 3, NOW),
        first_offset_record("orders", 1, 0, NOW),
        tier_record("billing.retry.1s", None, NOW),
    }


def test_an_offset_that_has_expired_before_there_was_a_control_topic() -> None:
    """Else a second apply would take the partition for a new one and repeat its records."""
    cluster = with_offsets(as_planned(PLAN), "billing", {("billing.ready.orders", 2): None})
    assert first_offset_record("billing.ready.orders", 2, 5, NOW) in set(control_records(PLAN, cluster, NOW))
    empty = replace(cluster, control=ControlState(exists=True))
    assert first_offset_record("billing.ready.orders", 2, 5, NOW) in set(control_records(PLAN, empty, NOW))
    known = replace(cluster, control=ControlState(exists=True, sources={"orders": 4}))
    assert first_offset_record("billing.ready.orders", 2, 5, NOW) not in set(control_records(PLAN, known, NOW))


def test_an_older_group_gets_new_features_on_demand() -> None:
    """Some of its members may not know of them."""
    cluster = as_planned(PLAN)
    old = replace(cluster, control=control_state(control_records(PLAN, cluster, NOW)))
    assert old.control.level == 1
    assert list(control_records(PLAN, old, NOW, raise_level=True)) == [level_record(FEATURE_LEVEL, NOW)]
    raised = replace(old, control=replace(old.control, level=FEATURE_LEVEL + 1))
    assert list(control_records(PLAN, raised, NOW, raise_level=True)) == []


def test_what_is_known_is_not_written_again() -> None:
    """A second apply has nothing to write, also after the source has grown."""
    cluster = as_planned(PLAN)
    known = replace(cluster, control=control_state(control_records(PLAN, cluster, NOW)))
    assert list(control_records(PLAN, known, NOW + 1)) == []


def test_a_tier_is_retired_and_used_again() -> None:
    """The time is that of the apply that first saw it."""
    policy = "policyEntry: {redeliveryPolicy: {initialRedeliveryDelay: 9000, redeliveryDelay: 9000}}\n"
    slow = planned(ONE_SOURCE + policy)
    cluster = as_planned(PLAN)
    control = control_state(control_records(PLAN, cluster, NOW))
    changed = replace(cluster, control=control)
    assert set(control_records(slow, changed, NOW + 1)) == {
        tier_record("billing.retry.9s", None, NOW + 1),
        tier_record("billing.retry.1s", NOW + 1, NOW + 1),
    }
    retired = replace(control, retired={"billing.retry.1s": NOW + 1, "billing.retry.9s": None})
    assert list(control_records(PLAN, replace(cluster, control=retired), NOW + 2)) == [
        tier_record("billing.retry.1s", None, NOW + 2)
    ]
    assert ControlState().retired == {}


def test_what_is_known_of_a_topic_that_is_to_be_created_is_withdrawn() -> None:
    """The topic was deleted. So were the partitions that a smaller topic of its name does not have."""
    known = {("billing.retry.1s", 0): 7, ("orders", 9): 4, ("orders", 0): 3}
    cluster = replace(NEW, control=ControlState(exists=True, committed=known, level=FEATURE_LEVEL))
    todo = changes(PLAN, cluster)
    assert todo.forget == (ForgetTopic("billing.retry.1s", (0,)), ForgetTopic("orders", (9,)))
    expected = [*withdrawn_records("billing.retry.1s", 0), *withdrawn_records("orders", 9)]
    assert list(withdrawals(todo, cluster)) == expected


def test_that_a_topic_was_created_again_is_known_until_it_is_read() -> None:
    """Else a group with ``latest`` would start at its end. After that, an apply ends the message of ``check``."""
    again = ControlState(exists=True, former={("orders", 0): 50}, level=FEATURE_LEVEL)
    assert changes(PLAN, replace(NEW, control=again)).forget == ()
    read = replace(NEW, control=replace(again, committed={("orders", 0): 2}))
    todo = changes(PLAN, read)
    assert todo.forget == (ForgetTopic("orders", (0,)),)
    assert list(withdrawals(todo, read)) == [withdrawn_former_record("orders", 0)]
