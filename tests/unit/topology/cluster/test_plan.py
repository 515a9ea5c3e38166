"""Which topics a configuration needs."""

import pytest

from kafka_redelivery.topology.cluster.facts import (
    MAX_MESSAGE,
    MIN_INSYNC,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_TYPE,
    ClusterFacts,
)
from kafka_redelivery.topology.cluster.plan import HEADROOM_BYTES, Role, default_width_of, plan, suffices
from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH
from kafka_redelivery.topology.wire.control import ControlState
from tests.unit.topology.clusters import BASE, ONE_SOURCE, TWO_SOURCES, planned, settings, source

TWO = (source("orders", 4, 3), source("bills", 6, 2))


def table(text: str, *sources: object) -> list[tuple[str, str, int, str | None]]:
    """Name, role, partitions and reader of each planned topic."""
    wanted = planned(text, *sources)  # type: ignore[arg-type]
    return [(topic.name, str(topic.role), topic.partitions, topic.reader) for topic in wanted.topics]


def test_one_source_with_defaults() -> None:
    """A tier for the one delay, ready topic, dead-letter topic, control topic, and those of `redelivery dlq`."""
    assert table(ONE_SOURCE) == [
        ("billing.retry.1s", "retry", 4, "billing.scheduler"),
        ("billing.ready.orders", "ready", 4, "billing"),
        ("DLQ.orders", "dead-letter", 4, None),
        ("billing.control", "control", 1, None),
        ("billing.dlq.jobs", "jobs", 1, None),
        ("billing.dlq.actions", "actions", 4, None),
        ("billing.dlq.parked", "parking", 4, None),
    ]


def test_tiers_are_as_wide_as_the_widest_source() -> None:
    """Tiers are shared by the group; ready and dead-letter topics are as wide as their source."""
    assert table(TWO_SOURCES + "journal: true\n", *TWO) == [
        ("billing.retry.1s", "retry", 6, "billing.scheduler"),
        ("billing.ready.orders", "ready", 4, "billing"),
        ("billing.ready.bills", "ready", 6, "billing"),
        ("DLQ.orders", "dead-letter", 4, None),
        ("DLQ.bills", "dead-letter", 6, None),
        ("billing.journal", "journal", 6, None),
        ("billing.control", "control", 1, None),
        ("billing.dlq.jobs", "jobs", 1, None),
        ("billing.dlq.actions", "actions", 6, None),
        ("billing.dlq.parked", "parking", 6, None),
    ]


@pytest.mark.parametrize(
    ("configured", "default", "width"), [("", None, 300), ("", 16, 16), ("maxPartitions: 40", 16, 40)]
)
def test_tiers_and_ready_topics_may_be_narrower(configured: str, default: int | None, width: int) -> None:
    """The configuration decides, then the group's default. Other topics are as wide as their sources."""
    text = TWO_SOURCES + f"policyEntry: {{maximumHandlerDelay: 2s}}\ntopics: {{{configured}}}\n"
    found = planned(text, source("orders", 300), source("bills", 6), default_width=default).topics
    assert {topic.partitions for topic in found if topic.role in {Role.RETRY, Role.MIXED}} == {width}
    assert [topic.partitions for topic in found if topic.role is Role.READY] == [width, 6]
    assert {topic.partitions for topic in found if topic.role in {Role.DEAD_LETTER, Role.ACTIONS}} == {300, 6}


@pytest.mark.parametrize(
    ("committed", "control", "width"),
    [
        ({}, ControlState(), DEFAULT_WIDTH),
        ({("orders", 0): 7}, ControlState(), DEFAULT_WIDTH),
        ({("billing.ready.orders", 0): 7}, ControlState(), None),
        ({("billing.ready.orders", 0): 7}, ControlState(exists=True), DEFAULT_WIDTH),
        ({}, ControlState(exists=True, sources={"orders": 4}), None),
        ({}, ControlState(exists=True, sources={"orders": 4}, width=48), 48),
    ],
    ids=["new", "another program before", "no control topic", "made by hand", "older", "known"],
)
def test_which_groups_are_narrow_by_default(
    committed: dict[tuple[str, int], int], control: ControlState, width: int | None
) -> None:
    """Those that begin now, and those that began with a default; the topics of older ones grow with their sources."""
    cluster = ClusterFacts(topics={}, committed={"billing": committed}, control=control)
    assert default_width_of(planned(), cluster) == width


def test_a_shared_dead_letter_topic_is_as_wide_as_the_widest_source() -> None:
    """One topic for all, once."""
    shared = TWO_SOURCES + "policyEntry: {deadLetterStrategy: {kind: shared}}\n"
    assert [row for row in table(shared, *TWO) if row[1] == "dead-letter"] == [("ActiveMQ.DLQ", "dead-letter", 6, None)]


def test_the_discarding_strategy_needs_no_topic() -> None:
    """Nothing is dead-lettered, so nothing is sent again."""
    text = ONE_SOURCE + "policyEntry: {deadLetterStrategy: {kind: discarding}}\n"
    assert [role for _, role, *_ in table(text)] == ["retry", "ready", "control"]


def test_delays_between_tiers_need_the_ladder_and_the_mixed_topic() -> None:
    """A handler that asks for up to 5 s: tiers of 1, 2 and 4 s and the mixed topic, all read by the scheduler."""
    text = ONE_SOURCE + "policyEntry: {maximumHandlerDelay: 5s}\n"
    waiting = [row for row in table(text) if row[3] == "billing.scheduler"]
    assert [name.removeprefix("billing.retry.") for name, *_ in waiting] == ["1s", "2s", "4s", "mixed"]
    assert [role for _, role, *_ in waiting] == ["retry", "retry", "retry", "mixed"]


def test_no_redelivery_needs_no_tier() -> None:
    """Zero redeliveries: nothing waits."""
    text = ONE_SOURCE + "policyEntry: {redeliveryPolicy: {maximumRedeliveries: 0}}\n"
    assert [role for _, role, *_ in table(text)] == ["ready", "dead-letter", "control", "jobs", "actions", "parking"]


def test_internal_topics_keep_everything() -> None:
    """Retention never deletes a pending record, and the time of a copy is its writer's."""
    found = planned(ONE_SOURCE + "journal: true\n").topics
    (control,) = (topic for topic in found if topic.role == "control")
    topics = [topic for topic in found if topic is not control]
    assert control.configs == {"cleanup.policy": "compact", MIN_INSYNC: "1"}
    for topic in topics:
        assert topic.configs["cleanup.policy"] == "delete"
        assert topic.configs[RETENTION_MS] == topic.configs[RETENTION_BYTES] == "-1"
        assert topic.configs[TIMESTAMP_TYPE] == "CreateTime"


@pytest.mark.parametrize(
    ("strategies", "retention"),
    [
        (("expiration: 5000", "expiration: 9000"), "9000"),
        (("expiration: 5000", "expiration: 0"), "-1"),
        (("expiration: 0", "expiration: 0"), "-1"),
    ],
)
def test_dead_letters_are_kept_until_the_last_one_expires(strategies: tuple[str, str], retention: str) -> None:
    """The longest expiration of its dead letters; unlimited if one never expires."""
    text = (
        BASE
        + "sources:\n"
        + "".join(
            f"  - {{topic: {name}, policy: {{deadLetterStrategy: {{kind: shared, {strategy}}}}}}}\n"
            for name, strategy in zip(("orders", "bills"), strategies, strict=True)
        )
    )
    (dead,) = [topic for topic in planned(text, *TWO).topics if topic.role is Role.DEAD_LETTER]
    assert dead.configs[RETENTION_MS] == retention
    assert dead.sources == ("orders", "bills")


def test_what_expires_is_kept_until_it_is_moved() -> None:
    """Retention would be as quick as the sweeper; and what was moved never expires."""
    text = 'policyEntry: {deadLetterStrategy: {expiration: 1000, expiryAddress: "EXP.{topic}"}}\n'
    wanted = planned(ONE_SOURCE + text)
    for name in ("DLQ.orders", "EXP.orders"):
        topic = wanted.topic(name)
        assert topic is not None
        assert topic.configs[RETENTION_MS] == "-1"
        assert topic.partitions == 4


def test_the_size_of_a_copy_is_one_that_kafka_takes() -> None:
    """Also where a source has the largest number."""
    largest = str(2**31 - 1)
    wanted = planned(ONE_SOURCE, source("orders", max_message_bytes=largest))
    assert {topic.configs[MAX_MESSAGE] for topic in wanted.topics if topic.role is Role.READY} == {largest}


def test_copies_are_at_least_as_safe_and_as_large_as_their_records() -> None:
    """Replicas, in-sync replicas and message size follow the strictest source of its records."""
    wanted = planned(
        TWO_SOURCES,
        source("orders", 4, 3, min_insync_replicas="1", max_message_bytes="2000000"),
        source("bills", 4, 2, min_insync_replicas="2", max_message_bytes="1000"),
    )
    tier, ready, bills = (wanted.topic(name) for name in
                          ("billing.retry.1s", "billing.ready.orders", "billing.ready.bills"))  # fmt: skip
    assert tier is not None
    assert ready is not None
    assert bills is not None
    assert (tier.replication_factor, tier.configs[MIN_INSYNC]) == (3, "2")
    assert (ready.replication_factor, ready.configs[MIN_INSYNC]) == (3, "1")
    assert (bills.replication_factor, bills.configs[MIN_INSYNC]) == (2, "2")
    assert tier.configs[MAX_MESSAGE] == str(2_000_000 + HEADROOM_BYTES)
    assert bills.configs[MAX_MESSAGE] == str(1000 + HEADROOM_BYTES)


def test_a_given_replication_factor_is_taken() -> None:
    """The check, and not the plan, decides whether it is enough."""
    wanted = planned(ONE_SOURCE + "topics: {replicationFactor: 5}\n")
    assert {topic.replication_factor for topic in wanted.topics} == {5}


def test_a_missing_source_is_left_out_and_named() -> None:
    """The rest is planned without it."""
    wanted = plan(settings(TWO_SOURCES), {"orders": source()})
    assert wanted.missing_sources == ("bills",)
    names = ["billing.retry.1s", "billing.ready.orders", "DLQ.orders", "billing.control"]
    assert [topic.name for topic in wanted.topics][:4] == names
    assert plan(settings(TWO_SOURCES), {}).topics == ()


def test_tiers_that_no_policy_needs_are_retired() -> None:
    """The scheduler still reads them, so they are found by their names and need offsets."""
    existing = ["billing.retry.1s", "billing.retry.30s", "billing.retry.mixed", "other.retry.30s", "orders"]
    wanted = planned()
    assert wanted.retired_names(existing) == {"billing.retry.30s": 30_000, "billing.retry.mixed": None}
    assert wanted.readers(existing)["billing.retry.30s"] == "billing.scheduler"


def test_the_document_is_enough_to_create_everything() -> None:
    """The document contains every name, number, property and offset that is needed to create the topics."""
    document = planned().document()
    assert document["group"] == "billing"
    assert document["topics"][0] == {
        "name": "billing.retry.1s",
        "role": "retry",
        "partitions": 4,
        "replicationFactor": 3,
        "configs": {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "message.timestamp.type": "CreateTime",
            "min.insync.replicas": "1",
            "max.message.bytes": "1052684",
        },
        "sources": ["orders"],
        "delayMs": 1000,
    }
    assert document["firstOffsets"] == [
        {"group": "billing.scheduler", "topic": "billing.retry.1s", "partitions": 4, "offset": "log start"},
        {"group": "billing", "topic": "billing.ready.orders", "partitions": 4, "offset": "log start"},
    ]


@pytest.mark.parametrize(
    ("config", "actual", "needed", "enough"),
    [
        (RETENTION_MS, "-1", "-1", True),
        (RETENTION_MS, "-1", "5", True),
        (RETENTION_MS, "6", "5", True),
        (RETENTION_MS, "4", "5", False),
        (RETENTION_MS, "0", "0", True),
        (RETENTION_MS, "9999", "-1", False),
        (RETENTION_BYTES, "-1", "-1", True),
        (RETENTION_BYTES, "9999", "-1", False),
        (MIN_INSYNC, "2", "1", True),
        (MIN_INSYNC, "1", "2", False),
        (MAX_MESSAGE, "10", "10", True),
        (MAX_MESSAGE, "9", "10", False),
        (TIMESTAMP_TYPE, "CreateTime", "CreateTime", True),
        (TIMESTAMP_TYPE, "LogAppendTime", "CreateTime", False),
        (TIMESTAMP_TYPE, None, "CreateTime", False),
    ],
)
def test_more_than_needed_is_enough(config: str, actual: str | None, needed: str, enough: bool) -> None:  # noqa: FBT001
    """A property is only changed where it does less than the plan needs."""
    assert suffices(config, actual, needed) is enough
