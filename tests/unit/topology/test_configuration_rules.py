"""Rules that need more than one field, or knowledge of Kafka: each told at its place."""

import pytest

from topology.configuration import ConfigurationError, Fault, load_settings

HEAD = 'group: billing\nkafka: {bootstrap.servers: "x:1"}\nsources: [{topic: orders}]\n'


def rules(text: str) -> list[tuple[str, str]]:
    """Where (without the position) and what; empty if the configuration is good."""
    found: tuple[Fault, ...] = ()
    try:
        load_settings(text)
    except ConfigurationError as error:
        found = error.faults
    assert all(fault.mend for fault in found)
    return [(fault.place.split(" ", 1)[1], fault.problem) for fault in found]


def kafka(settings: str) -> str:
    """A configuration with these client settings."""
    return HEAD.replace('bootstrap.servers: "x:1"', settings)


def value(serde: str) -> str:
    """A configuration whose source is read with this serde."""
    return HEAD.replace("topic: orders", f"topic: orders, value: {{{serde}}}")


def strategy(text: str) -> str:
    """A configuration with this dead-letter strategy."""
    return f"{HEAD}policyEntry: {{deadLetterStrategy: {{{text}}}}}\n"


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        # Redelivery policy.
        (
            HEAD + "policyEntry: {redeliveryPolicy: {collisionAvoidanceFactor: 0.1, collisionAvoidancePercent: 10}}",
            "policyEntry.redeliveryPolicy.collisionAvoidancePercent",
            "is given beside collisionAvoidanceFactor",
        ),
        (
            HEAD.replace(
                "topic: orders",
                "topic: o, policy: {redeliveryPolicy: {collisionAvoidanceFactor: 0, collisionAvoidancePercent: 0}}",
            ),
            "sources.0.policy.redeliveryPolicy.collisionAvoidancePercent",
            "is given beside collisionAvoidanceFactor",
        ),
        (
            HEAD + "policyEntry: {redeliveryPolicy: {collisionAvoidanceFactor: .nan}}",
            "policyEntry.redeliveryPolicy.collisionAvoidanceFactor",
            "is not a finite number",
        ),
        (
            HEAD + "policyEntry: {redeliveryPolicy: {redeliveryDelay: 9223372036854775808}}",
            "policyEntry.redeliveryPolicy.redeliveryDelay",
            "does not fit into 64 bits",
        ),
        # Names.
        (HEAD.replace("orders", "a b"), "sources.0.topic", "makes the name 'a b'"),
        (HEAD.replace("orders", "o" * 250), "sources.0.topic", "has 250 characters"),
        (HEAD.replace("orders", "o" * 240), "sources.0.topic", "has 254 characters"),
        (HEAD.replace("billing", "bill ing"), "group", "makes the name 'bill ing'"),
        (HEAD.replace("billing", "b" * 241).replace("orders", "o"), "group", "the retry tier of 1000 ms"),
        (HEAD.replace("{topic: orders}", "{topic: orders}, {topic: orders}"), "sources.1.topic", "is a source already"),
        (HEAD.replace("{topic: orders}", "{topic: a.b}, {topic: a_b}"), "sources.1.topic", "is ambiguous"),
        (HEAD.replace("orders", "DLQ.x}, {topic: x"), "sources.1.topic", "is ambiguous"),
        (HEAD.replace("orders", "billing.retry.5m"), "sources.0.topic", "looks like a retry tier of this group"),
        (HEAD + "outputs: [{topic: orders}]", "outputs.0.topic", "would consume its own outputs"),
        (HEAD + "outputs: [{topic: a}, {topic: a}]", "outputs.1.topic", "is an output already"),
        (HEAD + "outputs: [{topic: DLQ.orders}]", "sources.0.topic", "is ambiguous"),
        # Templates.
        (HEAD + 'topics: {retry: "{group}.r"}', "topics.retry", "lacks {delay}"),
        (HEAD + 'topics: {ready: "{group}.r"}', "topics.ready", "lacks {topic}"),
        (HEAD + 'topics: {retry: "r.{delay}"}', "topics.retry", "lacks {group}"),
        (HEAD + 'topics: {ready: "r.{topic}"}', "topics.ready", "lacks {group}"),
        (HEAD + 'topics: {retry: "{group}.{topic}.{delay}"}', "topics.retry", "holds {topic}, which nothing replaces"),
        (HEAD + 'topics: {journal: "{group}.{Topic}"}', "topics.journal", "holds {Topic}, which nothing replaces"),
        (HEAD + 'topics: {retry: "{group} {delay}"}', "topics.retry", "may only hold letters"),
        (strategy("topic: dead"), "policyEntry.deadLetterStrategy.topic", "lacks {topic}"),
        (strategy("kind: shared, topic: 'd.{topic}'"), "policyEntry.deadLetterStrategy.topic", "holds {topic}"),
        (strategy("kind: discarding, topic: d"), "policyEntry.deadLetterStrategy.topic", "has no topic"),
        (strategy("expiryAddress: 'e.{delay}'"), "policyEntry.deadLetterStrategy.expiryAddress", "holds {delay}"),
        (strategy("expiryAddress: 'DLQ.{topic}'"), "policyEntry.deadLetterStrategy.expiryAddress", "is ambiguous"),
        (strategy("expiryAddress: orders"), "policyEntry.deadLetterStrategy.expiryAddress", "is ambiguous"),
        (strategy("topic: 'd.{topic}.{delay}'"), "policyEntry.deadLetterStrategy.topic", "holds {delay}"),
        (strategy("kind: shared, topic: orders"), "policyEntry.deadLetterStrategy.topic", "is ambiguous"),
        # Client settings.
        (kafka("client.id: x"), "kafka", "has no bootstrap.servers"),
        (kafka('bootstrap.servers: ""'), "kafka", "has no bootstrap.servers"),
        (kafka("bootstrap.servers: x, enable.idempotence: false"), "kafka.enable.idempotence", "is off"),
        (kafka("bootstrap.servers: x, producer.acks: 1"), "kafka.producer.acks", "before its replicas have it"),
        (
            kafka("bootstrap.servers: x, auto.offset.reset: none"),
            "kafka.auto.offset.reset",
            "neither earliest nor latest",
        ),
        # Serdes.
        (value("format: avro"), "sources.0.value.format", "neither schemas nor a registry"),
        (value("format: avro, registry: {a: b}"), "sources.0.value.registry", "has no url"),
        (value("schemas: {1: a}"), "sources.0.value.schemas", "is for format: avro, but the format is raw"),
        (value("format: json, subject: s"), "sources.0.value.subject", "the format is json"),
        (value("format: avro, schemas: {1: a}, writeId: 2"), "sources.0.value.writeId", "schemas does not have"),
        (value("format: avro, schemas: {1: a}, subject: s"), "sources.0.value.subject", "there is no registry"),
        (
            HEAD + "outputs: [{topic: o, value: {format: avro, schemas: {1: a}}}]",
            "outputs.0.value",
            "does not tell which schema",
        ),
        # Handler and limits.
        (HEAD + "handler: {callable: 'consumers.mine:handle'}", "handler.callable", "is in consumers, which is"),
        (HEAD + "handler: {callable: 'cli:handle'}", "handler.callable", "is in cli, which is"),
        (HEAD + "handler: {callable: 'a:b', deadline: 0s}", "handler.deadline", "is zero"),
        (
            HEAD + "handler: {callable: 'a:b', slots: 20}\nlimits: {batch: 5, bufferRecords: 10}",
            "handler.slots",
            "lets only 10 records in",
        ),
        (
            HEAD + "handler: {callable: 'a:b', ordering: unordered, nonBlockingRedelivery: false}",
            "handler.nonBlockingRedelivery",
            "handler.ordering is unordered",
        ),
        (HEAD + "limits: {batch: 50, bufferRecords: 10}", "limits.bufferRecords", "less than limits.batch (50)"),
        (HEAD + "limits: {shutdownTimeout: 1s}", "limits.shutdownTimeout", "is shorter than limits.rebalanceTimeout"),
        (
            HEAD + "limits: {rebalanceTimeout: 5m, shutdownTimeout: 5m}",
            "limits.rebalanceTimeout",
            "is not below max.poll.interval.ms (300000)",
        ),
        (
            kafka("bootstrap.servers: x, consumer.max.poll.interval.ms: 10000"),
            "limits.rebalanceTimeout",
            "is not below max.poll.interval.ms (10000)",
        ),
        (HEAD + "journal: true\nmode: auto", "journal", "there is no transaction to write it in"),
    ],
)
def test_each_rule(text: str, place: str, problem: str) -> None:
    """A broken rule is one fault at its place."""
    ((told_place, told_problem),) = rules(text)
    assert told_place == place
    assert problem in told_problem


@pytest.mark.parametrize("prefix", ["", "producer.", "consumer.", "admin."])
@pytest.mark.parametrize(
    "name",
    [
        "group.id",
        "group.instance.id",
        "transactional.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "isolation.level",
        "enable.partition.eof",
        "allow.auto.create.topics",
    ],
)
def test_settings_that_are_ours(prefix: str, name: str) -> None:
    """What the promises rest on cannot be set, for no client."""
    ((place, problem),) = rules(kafka(f"bootstrap.servers: x, {prefix}{name}: true"))
    assert place == f"kafka.{prefix}{name}"
    assert "is not yours to set" in problem


@pytest.mark.parametrize(
    "name", ["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"]
)
def test_settings_of_the_classic_protocol(name: str) -> None:
    """With the new consumer protocol they are the broker's, and the client would not even start."""
    ((place, problem),) = rules(kafka(f"bootstrap.servers: x, group.protocol: consumer, consumer.{name}: 1"))
    assert place == f"kafka.consumer.{name}"
    assert "does not exist with group.protocol consumer" in problem
    assert rules(kafka(f"bootstrap.servers: x, group.protocol: classic, {name}: 1")) == []


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD.replace("bootstrap.servers", "metadata.broker.list"),
        kafka("bootstrap.servers: x, acks: all, enable.idempotence: true, auto.offset.reset: latest"),
        HEAD + "handler: {callable: 'a:b', slots: 8, ordering: key, deadline: 1ms}",
        HEAD + "limits: {batch: 10, bufferRecords: 10, rebalanceTimeout: 0s, shutdownTimeout: 0s}",
        HEAD + "journal: true",
        HEAD + "handler: {callable: 'shop.consumers:handle'}",
        HEAD + "handler: {callable: 'client:handle'}",
        HEAD + "outputs: [{topic: totals, value: {format: avro, schemas: {3: a}, writeId: 3}}]",
        HEAD + "outputs: [{topic: totals, value: {format: avro, registry: {url: u}, subject: s}}]",
        HEAD + 'topics: {retry: "billing.again.{delay}", ready: "billing.{topic}"}',
        strategy("kind: shared"),
        strategy("kind: shared, topic: '{group}.dead'"),
        strategy("kind: discarding"),
        strategy("topic: 'dead.{group}.{topic}', expiration: 1000"),
        HEAD.replace("topic: orders", "topic: orders, policy: {deadLetterStrategy: {kind: shared}}").replace(
            "}]", "}, {topic: bills, policy: {deadLetterStrategy: {kind: shared}}}]"
        ),
        value("format: avro, schemas: {1: a, 2: b}, reader: b"),
        value("format: avro, schemas: {1: a}, registry: {url: u}, writeId: 7"),
        HEAD + "policyEntry: {redeliveryPolicy: {useCollisionAvoidance: true, redeliveryDelay: -5}}",
    ],
)
def test_what_is_allowed(text: str) -> None:
    """These are no faults."""
    assert rules(text) == []


def test_what_is_made_of_a_bad_group_is_not_told_again() -> None:
    """One illegal group makes one fault, not one for each topic."""
    assert len(rules(HEAD.replace("billing", "no/good") + "journal: true\n")) == 1
