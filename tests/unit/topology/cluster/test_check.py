"""Faults of a cluster, each with its topic, the loss and a fix."""

from dataclasses import replace

import pytest

from kafka_redelivery.topology.cluster.check import Severity, check, check_plan
from kafka_redelivery.topology.cluster.facts import Bounds, ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.plan import TopologyPlan, needs_scheduler
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH
from tests.unit.topology.clusters import (
    ONE_SOURCE,
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
MISSING = "does not exist, or may not be described"
TIER, READY, DEAD = "billing.retry.1s", "billing.ready.orders", "DLQ.orders"
REDRIVE = ["billing.dlq.jobs", "billing.dlq.actions", "billing.dlq.parked"]


def told(cluster: ClusterFacts, plan: TopologyPlan = PLAN) -> list[tuple[str, str, str]]:
    """Return severity, topic and problem of each fault; all of them have a loss and a fix."""
    faults = check(plan, cluster)
    assert all(fault.loss and fault.fix for fault in faults)
    return [(str(fault.severity), fault.topic, fault.problem) for fault in faults]


def test_a_good_cluster_has_no_fault() -> None:
    """What a plan makes, its check accepts."""
    assert told(CLUSTER) == []
    assert told(as_planned(planned(ONE_SOURCE + "journal: true\n")), planned(ONE_SOURCE + "journal: true\n")) == []


@pytest.mark.parametrize("topic", [TIER, READY, DEAD])
def test_a_missing_topic(topic: str) -> None:
    """Each topic is needed."""
    assert told(without_topic(CLUSTER, topic)) == [("refuse", topic, MISSING)]


@pytest.mark.parametrize(("offered", "number"), [(False, 1), (True, 0), (None, 0)])
def test_brokers_without_the_consumer_protocol(offered: bool | None, number: int) -> None:  # noqa: FBT001 - the answer
    """The client would wait for ever; brokers that cannot be asked get the benefit of the doubt."""
    cluster = replace(CLUSTER, consumer_protocol=offered)
    assert told(cluster) == []
    plan = planned(ONE_SOURCE.replace("}", ", group.protocol: Consumer}", 1))
    problem = "these brokers do not offer the consumer protocol (Kafka 4.0)"
    assert told(cluster, plan) == [("refuse", "billing", problem)] * number


@pytest.mark.parametrize(
    ("own", "longest", "refused"), [(None, 10_000, True), (9_000, 10_000, False), (None, None, False)]
)
def test_transactions_that_may_not_be_open_so_long(own: int | None, longest: int | None, *, refused: bool) -> None:
    """The fix names the setting; without transactions there is nothing to refuse."""
    text = ONE_SOURCE if own is None else ONE_SOURCE.replace("}", f", producer.transaction.timeout.ms: {own}}}", 1)
    cluster = replace(CLUSTER, max_transaction_ms=longest)
    found = check(planned(text), cluster)
    assert [each.fix for each in found] == [
        f"under kafka, set producer.transaction.timeout.ms to {longest} or less"
    ] * refused
    assert told(cluster, planned(text + "mode: auto\n")) == []


def test_a_compacted_topic_needs_no_retention() -> None:
    """Kafka deletes none of its records for its age. As soon as it is not compacted any more, retention counts."""
    cluster = with_config(with_config(CLUSTER, DEAD, "cleanup.policy", "compact"), DEAD, "retention.ms", "1000")
    assert told(cluster) == [("refuse", DEAD, "is compacted (cleanup.policy=compact)")]
    assert len(told(with_config(cluster, DEAD, "cleanup.policy", "compact,delete"))) == 2


def test_a_missing_control_topic() -> None:
    """A group works without one, as it did before there were control topics."""
    assert told(without_topic(CLUSTER, "billing.control")) == [("warn", "billing.control", MISSING)]


def test_missing_topics_of_the_redrive() -> None:
    """Workers and schedulers of an older topology start; only `redelivery dlq` needs them."""
    for name in REDRIVE:
        assert told(without_topic(CLUSTER, name)) == [("warn", name, MISSING)]


def test_a_job_that_would_be_forgotten() -> None:
    """What was sent again must not be sent once more."""
    for name in REDRIVE[:2]:
        (fault,) = check(PLAN, with_config(CLUSTER, name, "retention.ms", "1000"))
        assert (fault.severity, fault.topic) == ("refuse", name)
        assert "sent once more" in fault.loss


def test_partitions_without_a_leader() -> None:
    """They are named. Their committed offsets are no fault, because the bounds of their logs are unknown."""
    bounds = {number: CLUSTER.topics[TIER].bounds[number] for number in (0, 3)}
    assert told(with_topic(CLUSTER, TIER, bounds=bounds, leaderless=(1, 2))) == [
        ("warn", TIER, "partitions 1, 2 have no leader")
    ]
    assert told(with_topic(CLUSTER, "orders", leaderless=(3,))) == [("warn", "orders", "partition 3 has no leader")]


def test_a_group_whose_topics_are_wide() -> None:
    """Only an advice, with figures, and whether the topics may be deleted. The setting keeps what there is."""
    wide = planned(ONE_SOURCE, source(partitions=300))
    (fault,) = check(wide, as_planned(wide))
    assert (fault.severity, fault.topic) == ("warn", "billing")
    advice = f"{TIER}, {READY} have up to 300 partitions, of which {DEFAULT_WIDTH} are enough for most groups"
    assert fault.problem == advice
    for hold, held in ((True, "; records wait in them"), (False, "; no record waits in them")):
        ((*_, problem),) = told(replace(as_planned(wide), wide_hold=hold), wide)
        assert problem == advice + held
    assert "times the CPU" in fault.loss
    kept = planned(ONE_SOURCE + "topics: {maxPartitions: 300}\n", source(partitions=300))
    assert "topics.maxPartitions: 300" in fault.fix
    assert told(as_planned(kept), kept) == []
    few = planned(ONE_SOURCE, source(partitions=2 * DEFAULT_WIDTH))
    assert told(as_planned(few), few) == []


def test_topics_that_are_wider_than_configured() -> None:
    """No change takes partitions away, so the advice remains until they are narrowed."""
    configured = planned(ONE_SOURCE + "topics: {maxPartitions: 1}\n")
    ((severity, _, problem),) = told(CLUSTER, configured)
    assert severity == "warn"
    assert "have up to 4 partitions, of which 1 are enough" in problem


def test_a_control_topic_that_forgets() -> None:
    """Retention would delete what the group knows."""
    forgetting = with_config(CLUSTER, "billing.control", "cleanup.policy", "compact,delete")
    assert told(forgetting) == [("warn", "billing.control", "has cleanup.policy=compact,delete")]


def test_a_missing_topic_that_the_brokers_would_create() -> None:
    """An automatic topic has one partition and deletes: the fault warns of it."""
    (fault,) = check(PLAN, replace(without_topic(CLUSTER, TIER), creates_topics=True))
    assert "the brokers create it" in fault.loss
    assert fault.fix == "run: redelivery topology apply"


@pytest.mark.parametrize(
    ("topic", "partitions", "severity"),
    [
        (TIER, 3, "warn"),
        (READY, 3, "warn"),
        (DEAD, 3, "warn"),
        (READY, 5, "warn"),
        (DEAD, 5, "warn"),
    ],
)
def test_partitions_that_do_not_fit(topic: str, partitions: int, severity: str) -> None:
    """No record is lost: of fewer partitions, some hold the records of several of the source's."""
    found = told(with_topic(CLUSTER, topic, partitions=partitions, bounds={}))
    assert (severity, topic) in {(each[0], each[1]) for each in found if "partitions" in each[2]}


def test_a_wider_tier_is_no_fault() -> None:
    """Tiers are shared; more partitions only need offsets."""
    wider = with_topic(CLUSTER, TIER, partitions=5)
    assert told(with_offsets(wider, "billing.scheduler", {(TIER, 4): 0})) == []


@pytest.mark.parametrize("topic", [TIER, READY, DEAD])
@pytest.mark.parametrize(
    ("config", "value", "severity", "problem"),
    [
        ("cleanup.policy", "compact", "refuse", "is compacted (cleanup.policy=compact)"),
        ("cleanup.policy", "compact,delete", "refuse", "is compacted (cleanup.policy=compact,delete)"),
        ("cleanup.policy", "", "warn", "has cleanup.policy="),
        ("retention.ms", "604800000", "refuse", "has a limited retention (retention.ms=604800000)"),
        ("retention.bytes", "1000", "refuse", "has a limited retention (retention.bytes=1000)"),
        ("message.timestamp.type", "LogAppendTime", "refuse", "has message.timestamp.type=LogAppendTime"),
        ("message.timestamp.before.max.ms", "1000", "warn", "has message.timestamp.before.max.ms=1000"),
        ("message.timestamp.after.max.ms", "1000", "warn", "has message.timestamp.after.max.ms=1000"),
        ("unclean.leader.election.enable", "true", "warn", "has unclean.leader.election.enable=true"),
        ("max.message.bytes", "1000000", "refuse", "takes at most 1000000 bytes"),
        ("max.message.bytes", "1048588", "warn", "takes at most 1048588 bytes"),
    ],
)
def test_properties_that_lose_records(topic: str, config: str, value: str, severity: str, problem: str) -> None:
    """One property wrong is one fault at its topic."""
    ((told_severity, told_topic, told_problem),) = told(with_config(CLUSTER, topic, config, value))
    assert (told_severity, told_topic) == (severity, topic)
    assert told_problem.startswith(problem)


@pytest.mark.parametrize(("retention", "fault"), [("59999", True), ("60000", False), ("-1", False)])
def test_dead_letters_must_live_until_they_expire(retention: str, fault: bool) -> None:  # noqa: FBT001
    """A limited retention is right where dead letters expire, if it is long enough."""
    plan = planned(ONE_SOURCE + "policyEntry: {deadLetterStrategy: {expiration: 60000}}\n")
    found = check(plan, with_config(as_planned(plan), DEAD, "retention.ms", retention))
    assert [each.loss for each in found] == ["dead letters are deleted before they expire (1m)"] * fault


def test_fewer_replicas_than_the_source() -> None:
    """A copy must not be less safe than its record."""
    assert told(with_topic(CLUSTER, TIER, replication_factor=2)) == [
        ("refuse", TIER, "has replication factor 2, its source orders has 3")
    ]


def test_fewer_replicas_than_configured() -> None:
    """More than the source is a wish, and its lack no danger."""
    plan = planned(ONE_SOURCE + "topics: {replicationFactor: 5}\n")
    cluster = with_topic(as_planned(plan), TIER, replication_factor=3)
    assert told(cluster, plan) == [
        ("warn", TIER, "has replication factor 3, topics.replicationFactor asks for 5"),
    ]


def test_fewer_replicas_in_sync_than_the_source() -> None:
    """``min.insync.replicas`` is at least the source's."""
    plan = planned(ONE_SOURCE, source(min_insync_replicas="2"))
    cluster = with_config(as_planned(plan), TIER, "min.insync.replicas", "1")
    assert told(cluster, plan) == [("refuse", TIER, "has min.insync.replicas=1, its source orders 2")]


def test_more_in_sync_than_there_are() -> None:
    """A topic that can never be written is refused."""
    cluster = with_config(CLUSTER, TIER, "min.insync.replicas", "4")
    assert told(cluster) == [("refuse", TIER, "needs 4 replicas in sync (min.insync.replicas), but has 3")]
    [fault] = check(PLAN, cluster)
    assert fault.fix.startswith("set min.insync.replicas=1 with kafka-configs.sh, or reassign it to 4 replicas")


def test_a_plan_that_is_less_safe_than_its_source() -> None:
    """A configured replication factor below the source's is refused before anything is created."""
    plan = planned(ONE_SOURCE + "topics: {replicationFactor: 1}\n")
    faults = check_plan(plan)
    assert {fault.topic for fault in faults} == {TIER, READY, DEAD, "billing.control", *REDRIVE}
    assert {fault.fix for fault in faults} == {"set topics.replicationFactor: 3, or remove it"}


def test_a_plan_that_could_never_be_written() -> None:
    """So is one with more replicas in sync than replicas."""
    plan = planned(ONE_SOURCE, source(replicas=1, min_insync_replicas="2"))
    assert all("must be in sync" in fault.problem for fault in check_plan(plan))
    assert len(check_plan(plan)) == len(plan.topics)


def test_a_missing_source() -> None:
    """We never create a source."""
    plan = replace(PLAN, missing_sources=("bills",))
    assert told(CLUSTER, plan) == [("refuse", "bills", f"the source topic {MISSING}")]


def test_a_missing_output() -> None:
    """We never create an output either; at run time its records could not be committed."""
    plan = planned(ONE_SOURCE + "outputs: [{topic: totals}]\n")
    assert told(as_planned(plan), plan) == [("refuse", "totals", f"the output topic {MISSING}")]


def test_a_scheduler_that_is_missing() -> None:
    """A warning, and none if it is unknown."""
    expected = [("warn", "billing.scheduler", "the group has no members, so no scheduler runs")]
    assert told(replace(CLUSTER, scheduler_runs=False)) == expected
    assert told(replace(CLUSTER, scheduler_runs=True)) == []


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ("", True),
        ("policyEntry: {redeliveryPolicy: {maximumRedeliveries: 0}}\n", False),
        ("policyEntry: {redeliveryPolicy: {initialRedeliveryDelay: 0, redeliveryDelay: 0}}\n", False),
        ("policyEntry: {redeliveryPolicy: {useCollisionAvoidance: true}}\n", True),
        ("handler: {callable: 'a:b', nonBlockingRedelivery: false}\n", False),
    ],
)
def test_a_group_needs_a_scheduler_if_records_wait_in_retry_topics(settings: str, needed: bool) -> None:  # noqa: FBT001
    """Not without redeliveries or delays, nor if records wait in their place."""
    assert needs_scheduler(load_settings(ONE_SOURCE + settings)) is needed


def test_refusals_come_first() -> None:
    """What stops a start stands above what does not."""
    cluster = with_config(without_topic(CLUSTER, DEAD), TIER, "unclean.leader.election.enable", "true")
    assert [severity for severity, _, _ in told(cluster)] == ["refuse", "warn"]


def test_a_retired_tier_with_records() -> None:
    """It is reported until it is empty, and its retention still matters."""
    old = TopicFacts(
        name="billing.retry.9s",
        partitions=1,
        replication_factor=1,
        configs={"cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "-1"},
        bounds={0: Bounds(0, 3)},
    )
    cluster = replace(CLUSTER, topics={**CLUSTER.topics, old.name: old})
    cluster = with_offsets(cluster, "billing.scheduler", {(old.name, 0): 0})
    assert told(cluster) == []
    assert told(replace(cluster, holding=frozenset({old.name}))) == [
        ("refuse", old.name, "has a limited retention (retention.ms=1000)"),
        ("warn", old.name, "is no longer configured, but records wait in it"),
    ]


def test_the_ready_topic_of_a_source_that_was_removed() -> None:
    """It is reported while it exists, unless the group has never read it."""
    old = TopicFacts(name="billing.ready.gone", partitions=1, replication_factor=1, bounds={0: Bounds(0, 3)})
    cluster = replace(CLUSTER, topics={**CLUSTER.topics, old.name: old})
    assert told(cluster) == []
    cluster = with_offsets(cluster, "billing", {(old.name, 0): 0})
    problem = "is the ready topic of gone, which is not among the sources"
    assert told(cluster) == [("warn", old.name, problem)]
    cluster = replace(cluster, holding=frozenset({old.name}))
    assert told(cluster) == [("warn", old.name, f"{problem}, and records wait in it")]


def test_a_fault_as_text_and_as_data() -> None:
    """Both tell everything."""
    (fault,) = check(PLAN, without_topic(CLUSTER, TIER))
    assert str(fault) == f"{TIER}: {fault.problem}; {fault.loss}; {fault.fix}"
    assert fault.severity is Severity.REFUSE
    assert fault.document() == {
        "severity": "refuse",
        "topic": TIER,
        "problem": fault.problem,
        "loss": fault.loss,
        "fix": fault.fix,
    }


class TestOutages:
    """The longest outage is compared with the retention of the sources that declare its dependency."""

    def found(self, longest: str, behind: int = 0, **configs: str) -> list[tuple[str, str, str]]:
        """Return the warnings of a source with these properties."""
        limits = f"maxOutage: {longest}" if longest else ""
        text = (
            ONE_SOURCE.replace("orders}", "orders, dependencies: [bank]}") + f"dependencies: {{bank: {{{limits}}}}}\n"
        )
        plan = planned(
            text, replace(source(), configs={name.replace("_", "."): each for name, each in configs.items()})
        )
        return told(replace(as_planned(plan), behind={"orders": behind}), plan)

    @pytest.mark.parametrize("longest", ["", "10d", "6h"])
    @pytest.mark.parametrize(
        "configs",
        [{}, {"retention_ms": "-1"}, {"retention_ms": "1", "retention_bytes": "1", "cleanup_policy": "compact"}],
    )
    def test_a_source_that_keeps_all(self, longest: str, configs: dict[str, str]) -> None:
        """Or of which it is not known: nothing is said."""
        assert self.found(longest, 5, **configs) == []

    def test_no_end(self) -> None:
        """An outage without an end outlives each retention."""
        problem = "the outage of bank has no maxOutage, and orders keeps records for 7d (retention.ms)"
        assert self.found("", 5, retention_ms="604800000") == [("warn", "orders", problem)]

    @pytest.mark.parametrize(("longest", "number"), [("6h", 0), ("1d", 1), ("2d", 1)])
    def test_too_long(self, longest: str, number: int) -> None:
        """The retention has to be longer."""
        problem = (
            f"the outage of bank may last for {longest} (maxOutage), and orders keeps records for 1d (retention.ms)"
        )
        assert self.found(longest, retention_ms="86400000") == [("warn", "orders", problem)] * number

    def test_what_is_behind_counts(self) -> None:
        """A record that waits already has less time left."""
        [(severity, topic, problem)] = self.found("6h", 1500, retention_ms="86400000")
        assert (severity, topic) == ("warn", "orders")
        assert problem == (
            "up to 1,500 records that are not finished are older than 18h, which is its retention (1d) less the "
            "maxOutage of bank (6h)"
        )

    def test_a_limit_of_bytes(self) -> None:
        """It cannot be compared with a time."""
        [(_, topic, problem)] = self.found("6h", retention_bytes="1000000")
        assert topic == "orders"
        assert problem.startswith("keeps 1,000,000 bytes of a partition (retention.bytes)")
