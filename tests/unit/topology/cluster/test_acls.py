"""The least rights of each role, derived from the configuration."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.cluster.acls import AclRole, other_system_rights, rights
from kafka_redelivery.topology.cluster.kafka_rights import Operation, PatternType, Resource, ResourceType, Right
from kafka_redelivery.topology.cluster.plan import Role, plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.topics.naming import Naming
from tests.unit.topology.clusters import ONE_SOURCE, TWO_SOURCES, settings, source

_BOTH = (AclRole.WORKER, AclRole.SPARK)
_EXPIRING = "policyEntry: {deadLetterStrategy: {expiration: 1000}}\n"
_MOVING = 'policyEntry: {deadLetterStrategy: {expiration: 1000, expiryAddress: "EXP.{topic}"}}\n'
_MODES = ("", "journal: true\n", "mode: auto\n")
_SECTIONS = (
    "outputs: [{topic: receipts}, {topic: audit}]\n",
    "metrics: {port: 9404}\n",
    "handler: {callable: 'm:f', nonBlockingRedelivery: false}\n",
)
_POLICIES = (
    "",
    "policyEntry: {redeliveryPolicy: {maximumRedeliveries: 0}}\n",
    "policyEntry: {redeliveryPolicy: {useCollisionAvoidance: true}}\n",
    _EXPIRING,
    _MOVING,
)
_TOPICS = (
    "",
    "topics: {retry: '{delay}.{group}', ready: '{topic}.{group}.due', mixed: 'other.{group}'}\n",
    "topics: {retry: '{group}{delay}', ready: 'ready.{topic}-{group}'}\n",
)


def found(text: str, *roles: AclRole) -> set[tuple[str, str, str, str]]:
    """The rights of some roles as type, pattern, name and operation."""
    return {
        (str(resource.type), str(resource.pattern), resource.name, str(operation))
        for resource, operation in rights(settings(text), roles)
    }


def operations(text: str, role: AclRole, topic: str) -> set[str]:
    """The operations that a role has on a topic, as they are granted."""
    wanted = Resource(ResourceType.TOPIC, PatternType.LITERAL, topic)
    return {str(right.operation) for right in rights(settings(text), [role]) if right.resource.covers(wanted)}


def test_a_worker() -> None:
    """It reads sources and ready topics, and writes wherever an outcome goes."""
    text = ONE_SOURCE + "outputs: [{topic: receipts}]\njournal: true\n"
    expected = {
        "orders": {"Read", "DescribeConfigs"},
        "billing.ready.orders": {"Read", "Write", "DescribeConfigs"},
        "billing.retry.1s": {"Write", "DescribeConfigs"},
        "DLQ.orders": {"Write", "DescribeConfigs"},
        "receipts": {"Write", "DescribeConfigs"},
        "billing.journal": {"Write", "DescribeConfigs"},
        "billing.control": {"Read", "Write", "DescribeConfigs"},
    }
    assert {topic: operations(text, AclRole.WORKER, topic) for topic in expected} == expected
    others = {right for right in found(text, AclRole.WORKER) if right[0] != "topic"}
    assert others == {
        ("group", "literal", "billing", "Read"),
        ("group", "literal", "billing.scheduler", "Describe"),
        ("transactionalId", "prefixed", "billing.worker.", "Write"),
    }


def test_a_scheduler() -> None:
    """It may delete what is finished from the topics between, and neither reads nor writes a source or an output."""
    text = ONE_SOURCE + "outputs: [{topic: receipts}]\njournal: true\n"
    expected = {
        "orders": {"Describe", "DescribeConfigs"},
        "receipts": set(),
        "billing.ready.orders": {"Write", "Delete", "DescribeConfigs"},
        "billing.retry.1s": {"Read", "Write", "Delete", "DescribeConfigs"},
        "DLQ.orders": {"Write", "DescribeConfigs"},
        "billing.journal": {"Write", "Delete", "DescribeConfigs"},
        "billing.control": {"Read", "Write", "DescribeConfigs"},
    }
    assert {topic: operations(text, AclRole.SCHEDULER, topic) for topic in expected} == expected
    others = {right for right in found(text, AclRole.SCHEDULER) if right[0] != "topic"}
    assert others == {
        ("group", "literal", "billing", "Describe"),
        ("group", "literal", "billing.scheduler", "Read"),
        ("transactionalId", "prefixed", "billing.scheduler.", "Write"),
    }


def test_sending_dead_letters_again() -> None:
    """It reads dead letters and writes to ready topics; it neither deletes nor describes configurations."""
    expected = {
        "orders": set(),
        "billing.retry.1s": set(),
        "billing.ready.orders": {"Write"},
        "DLQ.orders": {"Read"},
        "billing.dlq.jobs": {"Read", "Write"},
        "billing.dlq.actions": {"Read", "Write"},
        "billing.dlq.parked": {"Write"},
    }
    assert {topic: operations(ONE_SOURCE, AclRole.REDRIVE, topic) for topic in expected} == expected
    others = {right for right in found(ONE_SOURCE, AclRole.REDRIVE) if right[0] != "topic"}
    assert others == {
        ("group", "literal", "billing", "Describe"),
        ("transactionalId", "prefixed", "billing.dlq.", "Write"),
    }
    for role in (*_BOTH, AclRole.SCHEDULER):
        assert operations(ONE_SOURCE, role, "billing.dlq.actions") == {"Write", "DescribeConfigs"}


def test_looking_at_dead_letters() -> None:
    """It reads them and what became of them, and writes nothing."""
    assert found(ONE_SOURCE, AclRole.VIEWER) == {
        ("topic", "literal", "DLQ.orders", "Read"),
        ("topic", "literal", "billing.dlq.jobs", "Read"),
        ("topic", "literal", "billing.dlq.actions", "Read"),
        ("group", "literal", "billing", "Describe"),
    }


def test_importing_and_purging_dead_letters() -> None:
    """Neither may write to a ready topic, and only a purge may delete."""
    assert found(ONE_SOURCE, AclRole.IMPORT) == {
        ("topic", "literal", "DLQ.orders", "Read"),
        ("topic", "literal", "DLQ.orders", "Write"),
        ("group", "literal", "billing", "Describe"),
        ("transactionalId", "literal", "billing.dlq.import", "Write"),
    }
    assert found(ONE_SOURCE, AclRole.PURGE) == {
        ("topic", "literal", "DLQ.orders", "Read"),
        ("topic", "literal", "DLQ.orders", "Delete"),
        ("topic", "literal", "billing.dlq.jobs", "Read"),
        ("topic", "literal", "billing.dlq.actions", "Read"),
        ("group", "literal", "billing", "Describe"),
    }


def test_the_console() -> None:
    """It does what `redrive` and `operator` do, looks at the configurations of all topics, and deletes nothing."""
    together = rights(settings(ONE_SOURCE), [AclRole.REDRIVE, AclRole.OPERATOR])
    console = rights(settings(ONE_SOURCE), [AclRole.CONSOLE])
    assert all(any(right.includes(other) for right in console) for other in together)
    more = {right.operation for right in console if not any(other.includes(right) for other in together)}
    assert more <= {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}
    for topic in ("orders", "billing.ready.orders", "billing.retry.1s", "DLQ.orders", "billing.control"):
        assert "DescribeConfigs" in operations(ONE_SOURCE, AclRole.CONSOLE, topic)


def test_dead_letters_that_expire() -> None:
    """Only then a scheduler may delete dead letters; with an expiry topic it needs a transaction for it, too."""
    assert operations(ONE_SOURCE + _EXPIRING, AclRole.SCHEDULER, "DLQ.orders") == {
        "Read", "Write", "Delete", "DescribeConfigs",
    }  # fmt: skip
    more = found(ONE_SOURCE + _EXPIRING, AclRole.SCHEDULER) - found(ONE_SOURCE, AclRole.SCHEDULER)
    assert {right for right in more if right[2] != "DLQ.orders"} == {
        ("topic", "literal", "__consumer_offsets", "Describe"),
        ("group", "literal", "billing.sweeper", "Read"),
    }
    sweeper = ("transactionalId", "prefixed", "billing.sweeper.", "Write")
    assert sweeper in found(ONE_SOURCE + _MOVING, AclRole.SCHEDULER)
    assert sweeper not in found(ONE_SOURCE + _EXPIRING, AclRole.SCHEDULER)


def test_metrics_count_dead_letters() -> None:
    """A scheduler with a metrics port reads the dead-letter topics; a worker never does."""
    text = ONE_SOURCE + "metrics: {port: 9404}\n"
    assert "Read" in operations(text, AclRole.SCHEDULER, "DLQ.orders")
    assert "Read" not in operations(text, AclRole.WORKER, "DLQ.orders")


def test_apply() -> None:
    """It creates, extends and configures the internal topics, and only describes the others."""
    text = ONE_SOURCE + "outputs: [{topic: receipts}]\n"
    create = {"Create", "Alter", "AlterConfigs"}
    assert operations(text, AclRole.APPLY, "billing.retry.5m") == create | {"Read"}
    assert operations(text, AclRole.APPLY, "billing.ready.orders") == create | {"Read"}
    assert operations(text, AclRole.APPLY, "billing.control") == create - {"Alter"} | {"Read", "Write"}
    assert operations(text, AclRole.APPLY, "DLQ.orders") == create
    for topic in ("orders", "receipts"):
        assert operations(text, AclRole.APPLY, topic) == {"Describe", "DescribeConfigs"}


def test_the_archive() -> None:
    """It only reads dead letters, and what became of them. It has no transaction."""
    assert found(TWO_SOURCES, AclRole.ARCHIVE) == {
        *(
            ("topic", "literal", topic, operation)
            for topic, operation in product(("DLQ.orders", "DLQ.bills"), ("Read", "DescribeConfigs"))
        ),
        *(("topic", "literal", topic, "Read") for topic in ("billing.dlq.jobs", "billing.dlq.actions")),
        ("group", "literal", "billing", "Describe"),
    }


def test_a_report_and_an_audit() -> None:
    """They only read. The audit reads the sources, too, and asks how far expired dead letters were moved."""
    report = {
        ("topic", pattern, topic, operation)
        for (pattern, topic), operation in product(
            (
                ("literal", "billing.ready.orders"),
                ("prefixed", "billing.retry."),
                ("literal", "DLQ.orders"),
                ("literal", "billing.journal"),
            ),
            ("Read", "DescribeConfigs"),
        )
    } | {("group", "literal", group, "Describe") for group in ("billing", "billing.scheduler")}
    assert found(ONE_SOURCE + "journal: true\n", AclRole.REPORT) == report
    sources = {("topic", "literal", "orders", operation) for operation in ("Read", "DescribeConfigs")}
    assert found(ONE_SOURCE + "journal: true\n", AclRole.AUDIT) == report | sources
    sweeper = ("group", "literal", "billing.sweeper", "Describe")
    assert sweeper in found(ONE_SOURCE + _MOVING, AclRole.AUDIT)
    assert sweeper not in found(ONE_SOURCE + _EXPIRING, AclRole.AUDIT)


def test_spark_is_a_worker_with_other_transactions() -> None:
    """The query writes what a worker writes."""
    difference = found(ONE_SOURCE, AclRole.WORKER) ^ found(ONE_SOURCE, AclRole.SPARK)
    assert difference == {
        ("transactionalId", "prefixed", "billing.worker.", "Write"),
        ("transactionalId", "prefixed", "billing.spark.", "Write"),
        ("transactionalId", "literal", "billing.spark", "Write"),
    }


def test_an_operator_changes_nothing_but_the_control_topic() -> None:
    """To find a record it reads all topics but outputs."""
    assert found(ONE_SOURCE, AclRole.OPERATOR) == {
        ("topic", "literal", "billing.control", "Read"),
        ("topic", "literal", "billing.control", "Write"),
        ("topic", "literal", "orders", "Read"),
        ("topic", "literal", "billing.ready.orders", "Read"),
        ("topic", "literal", "DLQ.orders", "Read"),
        ("topic", "literal", "billing.dlq.jobs", "Read"),
        ("topic", "literal", "billing.dlq.actions", "Read"),
        ("topic", "prefixed", "billing.retry.", "Read"),
        ("group", "literal", "billing", "Describe"),
        ("group", "literal", "billing.scheduler", "Describe"),
    }


def test_a_query_with_the_scheduler_in_its_driver_has_the_rights_of_both() -> None:
    """And no more."""
    driver = ONE_SOURCE + "pipeline: {checkpoint: c, scheduler: driver}\n"
    assert found(driver, AclRole.SPARK) == found(ONE_SOURCE, AclRole.SPARK, AclRole.SCHEDULER)


def test_where_records_wait_in_place_no_retry_topic_is_written() -> None:
    """With blocking redelivery a worker writes no retry record."""
    text = ONE_SOURCE + "handler: {callable: 'm:f', nonBlockingRedelivery: false}\n"
    assert operations(text, AclRole.WORKER, "billing.retry.1s") == {"Describe", "DescribeConfigs"}
    assert operations(text, AclRole.WORKER, "billing.ready.orders") == {"Read", "DescribeConfigs"}


@pytest.mark.parametrize("mode", ["auto", "dups_ok", "client", "individual"])
def test_transactional_ids_only_where_there_are_transactions(mode: str) -> None:
    """The other modes write without transactions."""
    assert not [
        right for right in found(f"{ONE_SOURCE}mode: {mode}\n", AclRole.WORKER) if right[0] == "transactionalId"
    ]


def test_without_a_prefix_of_the_group_each_tier_is_named() -> None:
    """A prefix that other groups share would give rights on their topics."""
    text = ONE_SOURCE + "topics: {retry: 'retry.{delay}.{group}', ready: 'ready.{topic}.{group}'}\n"
    for role in AclRole:
        assert not [right for right in found(text, role) if right[:2] == ("topic", "prefixed")]
    assert "Write" in operations(text, AclRole.WORKER, "retry.1s.billing")
    assert "Write" in operations(text, AclRole.SCHEDULER, "ready.orders.billing")


@pytest.mark.parametrize(
    ("group", "topics"),
    [
        ("re", "retry: 'retry.{delay}.{group}', ready: 'ready.{topic}.{group}'"),
        ("billing", "retry: '{group}.{delay}', ready: '{group}.{topic}'"),
    ],
)
def test_a_prefix_is_of_the_retries_of_this_group_alone(group: str, topics: str) -> None:
    """Not of what begins with its letters, and not of all topics of the group."""
    text = ONE_SOURCE.replace("billing", group) + f"topics: {{{topics}}}\n"
    for role in AclRole:
        assert not [right for right in found(text, role) if right[:2] == ("topic", "prefixed")]


_CONFIGURATIONS = st.builds(
    lambda base, mode, sections, policy, topics: settings(base + mode + "".join(sections) + policy + topics),
    st.sampled_from([ONE_SOURCE, TWO_SOURCES]),
    st.sampled_from(_MODES),
    st.lists(st.sampled_from(_SECTIONS), unique=True),
    st.sampled_from(_POLICIES),
    st.sampled_from(_TOPICS),
)


@given(_CONFIGURATIONS, st.lists(st.sampled_from(AclRole), min_size=1, unique=True))
def test_no_right_is_granted_twice(configuration: Settings, roles: list[AclRole]) -> None:
    """No right includes another, and a user of several roles has the rights of each."""
    granted = rights(configuration, roles)
    assert not [(a, b) for a, b in product(granted, granted) if a != b and a.includes(b)]
    for role in roles:
        assert all(any(have.includes(need) for have in granted) for need in rights(configuration, [role]))


@given(_CONFIGURATIONS)
def test_every_topic_of_the_plan_is_covered(configuration: Settings) -> None:
    """All processes of a group describe every internal topic at start, and `apply` creates every one of them.

    The control topic alone has one partition for good.
    """
    planned = plan(configuration, {each.topic: source(each.topic) for each in configuration.sources})
    for topic, role in product(planned.topics, (*_BOTH, AclRole.SCHEDULER, AclRole.APPLY)):
        resource = Resource(ResourceType.TOPIC, PatternType.LITERAL, topic.name)
        wanted = [Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS]
        if topic.role in {Role.JOBS, Role.PARKING} and role is not AclRole.APPLY:
            continue
        if role is AclRole.APPLY:
            wanted += [Operation.CREATE, Operation.ALTER_CONFIGS]
        if role is AclRole.APPLY and topic.role is not Role.CONTROL:
            wanted.append(Operation.ALTER)
        if role in _BOTH and topic.role in {Role.DEAD_LETTER, Role.JOURNAL, Role.ACTIONS}:
            wanted.append(Operation.WRITE)
        if role is AclRole.SCHEDULER and topic.role not in {Role.DEAD_LETTER, Role.CONTROL, Role.ACTIONS}:
            wanted.append(Operation.DELETE)
        granted = rights(configuration, [role])
        assert all(any(have.includes(Right(resource, each)) for have in granted) for each in wanted)


@given(_CONFIGURATIONS)
def test_no_role_may_write_or_delete_in_a_source(configuration: Settings) -> None:
    """Sources belong to others."""
    for each in configuration.sources:
        resource = Resource(ResourceType.TOPIC, PatternType.LITERAL, each.topic)
        held = {right.operation for right in rights(configuration, AclRole) if right.resource.covers(resource)}
        assert held == {Operation.READ, Operation.DESCRIBE_CONFIGS}


def test_another_systems_dead_letters() -> None:
    """Its topic is read, the jobs have topics of their own, and what letters only name is read where it came from."""
    naming = Naming(group="orders-dlt", redrive="{group}.redelivery")
    granted = {
        (each.resource.name, str(each.operation)) for each in other_system_rights("orders-dlt", naming, ["orders"])
    }
    assert {("orders", "Read"), ("orders", "Write"), ("orders-dlt", "Read"), ("orders-dlt.dlq.", "Write")} <= granted
    assert ("orders-dlt.redelivery.parked", "Write") in granted
    assert ("orders-dlt", "Write") not in granted
