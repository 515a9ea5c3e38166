"""Which rights a start reports, and which of them it cannot do without."""

from collections.abc import Collection

import pytest

from kafka_redelivery.topology.cluster.acls import AclRole, configured_topics, missing_rights, rights
from kafka_redelivery.topology.cluster.kafka_rights import Operation
from tests.unit.topology.clusters import TWO_SOURCES, settings

_SETTINGS = settings(TWO_SOURCES + "outputs: [{topic: receipts}]\njournal: true\nmetrics: {port: 9404}\n")
_IMPLIED = {
    Operation.READ: Operation.DESCRIBE,
    Operation.WRITE: Operation.DESCRIBE,
    Operation.DELETE: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}


def granted(role: AclRole) -> dict[str, Collection[Operation]]:
    """What the brokers report to a user with exactly the rights of a role."""
    found: dict[str, Collection[Operation]] = {}
    for topic in configured_topics(_SETTINGS):
        direct = {right.operation for right in rights(_SETTINGS, [role]) if right.resource.covers(topic)}
        if direct:
            found[topic.name] = direct | {_IMPLIED[each] for each in direct if each in _IMPLIED}
    return found


def lacking(role: AclRole, **operations: Collection[Operation]) -> tuple[list[str], bool]:
    """What is missing with other operations on some topics, and whether the start is refused."""
    changed = {topic.replace("_", "."): allowed for topic, allowed in operations.items()}
    found = missing_rights(_SETTINGS, role, granted(role) | changed)
    return [str(right) for right in found.rights], found.refused


@pytest.mark.parametrize("role", AclRole)
def test_the_rights_of_a_role_suffice(role: AclRole) -> None:
    """Operations that others include are not missing."""
    assert lacking(role) == ([], False)


def test_the_topic_of_the_outcomes_is_not_needed_to_start() -> None:
    """A worker or scheduler without the right to write it starts, and says so. Its configuration has to be readable."""
    for role in (AclRole.WORKER, AclRole.SCHEDULER):
        left = {Operation.DESCRIBE_CONFIGS}
        assert lacking(role, billing_dlq_actions=left) == (["Write on topic billing.dlq.actions"], False)
        left = {Operation.WRITE, Operation.DESCRIBE}
        assert lacking(role, billing_dlq_actions=left) == (["DescribeConfigs on topic billing.dlq.actions"], True)


def test_a_topic_that_may_not_be_described_is_refused_with_all_its_rights() -> None:
    """All topics are reported together."""
    missing, refused = lacking(AclRole.WORKER, orders=(), receipts=())
    assert missing == [
        "Read on topic orders",
        "DescribeConfigs on topic orders",
        "Write on topic receipts",
        "DescribeConfigs on topic receipts",
    ]
    assert refused


@pytest.mark.parametrize(
    ("role", "topic", "left", "missing"),
    [
        (AclRole.WORKER, "orders", {Operation.READ, Operation.DESCRIBE}, "DescribeConfigs on topic orders"),
        (AclRole.WORKER, "orders", {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}, "Read on topic orders"),
        (
            AclRole.SCHEDULER,
            "billing.retry.1s",
            {Operation.WRITE, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS},
            "Read on topics billing.retry.*",
        ),
        (
            AclRole.APPLY,
            "billing.retry.1s",
            {Operation.CREATE, Operation.READ, Operation.ALTER, Operation.DESCRIBE},
            "AlterConfigs on topics billing.retry.*",
        ),
        (
            AclRole.APPLY,
            "billing.dlq.actions",
            {Operation.CREATE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS},
            "Alter on topic billing.dlq.actions",
        ),
        (AclRole.REPORT, "DLQ.orders", {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}, "Read on topic DLQ.orders"),
        (AclRole.AUDIT, "orders", {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}, "Read on topic orders"),
    ],
)
def test_what_a_start_needs(role: AclRole, topic: str, left: Collection[Operation], missing: str) -> None:
    """It describes configurations, and reads what the role consumes."""
    assert lacking(role, **{topic.replace(".", "_"): left}) == ([missing], True)


@pytest.mark.parametrize(
    ("role", "topic", "left", "missing"),
    [
        (
            AclRole.WORKER,
            "DLQ.orders",
            {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS},
            "Write on topic DLQ.orders",
        ),
        (
            AclRole.SCHEDULER,
            "DLQ.orders",
            {Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS},
            "Read on topic DLQ.orders",
        ),
        (
            AclRole.SCHEDULER,
            "billing.journal",
            {Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS},
            "Delete on topic billing.journal",
        ),
        (
            AclRole.APPLY,
            "DLQ.orders",
            {Operation.ALTER, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS},
            "Create on topic DLQ.orders",
        ),
    ],
)
def test_what_some_records_need_is_reported_only(
    role: AclRole, topic: str, left: Collection[Operation], missing: str
) -> None:
    """Without these a start goes on: what needs them waits."""
    assert lacking(role, **{topic.replace(".", "_"): left}) == ([missing], False)


def test_the_control_topic_is_optional() -> None:
    """A group works without it, unless it can be described and its configuration cannot."""
    assert lacking(AclRole.WORKER, billing_control=()) == (
        ["Read on topic billing.control", "Write on topic billing.control", "DescribeConfigs on topic billing.control"],
        False,
    )
    left = {Operation.READ, Operation.WRITE, Operation.DESCRIBE}
    assert lacking(AclRole.WORKER, billing_control=left) == (["DescribeConfigs on topic billing.control"], True)


def test_an_unknown_topic_is_left_out() -> None:
    """One that does not exist, or whose brokers do not report operations."""
    assert missing_rights(_SETTINGS, AclRole.WORKER, {}).rights == ()
