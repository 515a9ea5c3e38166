"""Committed offsets that are missing or point at nothing."""

from dataclasses import replace

import pytest

from kafka_redelivery.topology.cluster.check import check
from kafka_redelivery.topology.cluster.facts import Bounds
from kafka_redelivery.topology.wire.control import ControlState
from tests.unit.topology.clusters import ONE_SOURCE, as_planned, planned, with_offsets, with_topic

PLAN = planned()
CLUSTER = as_planned(PLAN)
TIER, READY = "billing.retry.1s", "billing.ready.orders"


@pytest.mark.parametrize(("group", "topic"), [("billing.scheduler", TIER), ("billing", READY)])
def test_a_missing_offset_is_never_reset_silently(group: str, topic: str) -> None:
    """The group that reads the topic needs an offset in each of its partitions."""
    (fault,) = check(PLAN, with_offsets(CLUSTER, group, {(topic, 1): None, (topic, 3): None}))
    assert (fault.severity, fault.topic) == ("refuse", topic)
    assert fault.problem == f"group {group} has no committed offset in partitions 1, 3"
    assert "redelivery topology apply --accept-repeats" in fault.fix
    assert "repeats up to 10" in fault.loss


@pytest.mark.parametrize(("group", "topic"), [("billing.scheduler", TIER), ("billing", READY)])
def test_a_new_partition_needs_no_offset(group: str, topic: str) -> None:
    """It is empty: the member that is assigned it commits the log start."""
    bounds = {**CLUSTER.topics[topic].bounds, 1: Bounds(0, 0), 3: Bounds(7, 7)}
    grown = with_topic(CLUSTER, topic, bounds=bounds)
    (fault,) = check(PLAN, with_offsets(grown, group, {(topic, 1): None, (topic, 3): None}))
    assert (fault.severity, fault.topic) == ("warn", topic)
    assert fault.problem == f"group {group} has no committed offset in partitions 1, 3"


def test_a_partition_that_the_group_has_never_read_needs_no_offset() -> None:
    """The control topic shows that no record in it was processed."""
    missing = with_offsets(CLUSTER, "billing", {(READY, 1): None, (READY, 3): None})
    known = replace(missing, control=ControlState(exists=True, committed={(READY, 3): 7}))
    assert [(str(fault.severity), fault.problem) for fault in check(PLAN, known)] == [
        ("warn", "group billing has no committed offset in partition 1"),
        ("warn", "group billing has no committed offset in partition 3"),
    ]


@pytest.mark.parametrize(("group", "topic"), [("billing.scheduler", TIER), ("billing", READY)])
def test_a_control_topic_that_may_not_be_read_refuses_no_start(group: str, topic: str) -> None:
    """It may have a saved position, so nobody is told to accept repeats; the process halts the partitions alone."""
    missing = with_offsets(CLUSTER, group, {(topic, 1): None, (topic, 3): None})
    (fault,) = check(PLAN, replace(missing, control_forbidden=True))
    assert (fault.severity, fault.topic) == ("warn", topic)
    assert fault.problem == f"group {group} has no committed offset in partitions 1, 3"
    assert "these partitions alone are halted" in fault.loss
    assert "grant the right Read on the control topic" in fault.fix
    assert "accept" not in fault.fix


def test_an_expired_offset_of_a_source() -> None:
    """It halts its partition, so it is a warning with the number of records that would be repeated."""
    born = replace(CLUSTER, control=ControlState(exists=True, committed={("orders", 1): 7, ("orders", 2): 7}))
    (fault,) = check(PLAN, with_offsets(born, "billing", {("orders", 2): 8}))
    assert (fault.severity, fault.topic) == ("warn", "orders")
    assert fault.problem == "group billing has no committed offset in partition 1"
    assert "repeats up to 10, so these partitions alone are halted" in fault.loss


def test_many_partitions_are_not_all_named() -> None:
    """A message stays readable."""
    wide = with_topic(CLUSTER, TIER, partitions=24)
    (fault,) = check(PLAN, wide)
    assert fault.problem.endswith("in partitions 4, 5, 6, 7, 8, 9, 10, 11 and 12 more")


@pytest.mark.parametrize(("offset", "fault"), [(4, True), (5, False), (10, False), (11, True)])
def test_an_offset_outside_of_its_log(offset: int, fault: bool) -> None:  # noqa: FBT001
    """From the log start to its end is right; the log goes from 5 to 10."""
    assert bool(check(PLAN, with_offsets(CLUSTER, "billing", {(READY, 0): offset}))) is fault


def test_records_deleted_before_they_were_processed() -> None:
    """The offset lies below the log start."""
    (fault,) = check(PLAN, with_offsets(CLUSTER, "billing.scheduler", {(TIER, 2): 4}))
    assert fault.severity == "refuse"
    assert "whether records were deleted with them before they were processed is unknown" in fault.loss
    assert "run: redelivery topology apply --accept-loss" in fault.fix


def test_a_topic_made_anew() -> None:
    """The offset lies beyond the log end."""
    anew = with_topic(CLUSTER, READY, bounds=dict.fromkeys(range(4), Bounds(0, 3)))
    (fault,) = check(PLAN, anew)
    assert fault.severity == "refuse"
    assert "beyond the log end in partitions 0, 1, 2, 3" in fault.problem
    assert fault.fix.startswith("stop the group, and ")
    assert "--bootstrap-server" in fault.fix


def test_a_source_needs_no_offset() -> None:
    """A new group starts where the client settings say."""
    assert "billing" in CLUSTER.committed
    assert ("orders", 0) not in CLUSTER.committed["billing"]
    assert check(PLAN, CLUSTER) == ()


@pytest.mark.parametrize("end", [6, 10])
def test_a_source_that_deleted_a_position(end: int) -> None:
    """A warning, no refusal. No loss is claimed: markers of transactions take up offsets, too."""
    deleted = with_topic(CLUSTER, "orders", bounds=dict.fromkeys(range(4), Bounds(6, end)))
    (fault,) = check(PLAN, with_offsets(deleted, "billing", {("orders", 1): 3}))
    assert (fault.severity, fault.topic) == ("warn", "orders")
    assert "whether records were deleted with them before the group read them is unknown" in fault.loss
    assert fault.fix.startswith("run: redelivery topology apply --accept-loss")


def test_a_source_made_anew() -> None:
    """New records below the old offset would be skipped."""
    (fault,) = check(PLAN, with_offsets(CLUSTER, "billing", {("orders", 1): 30}))
    assert (fault.severity, fault.topic) == ("refuse", "orders")
    assert "new records up to that offset would be skipped" in fault.loss


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ("", False),
        ("handler: {callable: 'a:b'}", False),
        ("handler: {callable: 'a:b', ordering: key}", True),
        ("handler: {callable: 'a:b', ordering: unordered}", True),
        ("handler: {callable: 'a:b', nonBlockingRedelivery: false}", True),
        ("handler: {callable: 'a:b', persistDeliveryCountBeforeDelivery: true}", True),
        ("handler: {callable: 'a:b'}\nmode: client", True),
        ("policyEntry: {redeliveryPolicy: {useCollisionAvoidance: true}}", True),
    ],
)
def test_brokers_that_refuse_the_metadata_of_commits(settings: str, *, refused: bool) -> None:
    """Progress in order needs no metadata; what finishes out of order or waits in place needs up to 4,096 bytes."""
    plan = planned(ONE_SOURCE + settings)
    cluster = as_planned(plan)
    assert check(plan, replace(cluster, max_metadata=4096)) == ()
    faults = check(plan, replace(cluster, max_metadata=4095))
    assert [(fault.severity, fault.topic) for fault in faults] == [("refuse", "__consumer_offsets")] * refused
