"""Rules that involve more than one setting, or that need knowledge of Kafka."""

import pytest

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.faults import ConfigurationError, Fault

HEAD = 'group: billing\nkafka: {bootstrap.servers: "x:1"}\nsources: [{topic: orders}]\n'
TOKENS = "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER"


def rules(text: str) -> list[tuple[str, str]]:
    """Path and problem of each fault; empty if the configuration has none."""
    found: tuple[Fault, ...] = ()
    try:
        load_settings(text)
    except ConfigurationError as error:
        found = error.faults
    assert all(fault.fix for fault in found)
    return [(fault.location.split(" ", 1)[1], fault.problem) for fault in found]


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
    ("text", "location", "problem"),
    [
        # Redelivery policy.
        (
            HEAD + "policyEntry: {redeliveryPolicy: {collisionAvoidanceFactor: 0.1, collisionAvoidancePercent: 10}}",
            "policyEntry.redeliveryPolicy.collisionAvoidancePercent",
            "is used together with collisionAvoidanceFactor",
        ),
        (
            HEAD.replace(
                "topic: orders",
                "topic: o, policy: {redeliveryPolicy: {collisionAvoidanceFactor: 0, collisionAvoidancePercent: 0}}",
            ),
            "sources.0.policy.redeliveryPolicy.collisionAvoidancePercent",
            "is used together with collisionAvoidanceFactor",
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
        (HEAD.replace("orders", "a b"), "sources.0.topic", "gives the name 'a b'"),
        (HEAD.replace("orders", "o" * 250), "sources.0.topic", "has 250 characters"),
        (HEAD.replace("orders", "o" * 240), "sources.0.topic", "has 254 characters"),
        (HEAD.replace("billing", "bill ing"), "group", "gives the name 'bill ing'"),
        (HEAD.replace("billing", "b" * 241).replace("orders", "o"), "group", "the retry tier of 1000 ms"),
        (HEAD.replace("{topic: orders}", "{topic: orders}, {topic: orders}"), "sources.1.topic", "is already a source"),
        (HEAD.replace("{topic: orders}", "{topic: a.b}, {topic: a_b}"), "sources.1.topic", "is ambiguous"),
        (HEAD.replace("orders", "DLQ.x}, {topic: x"), "sources.1.topic", "is ambiguous"),
        (HEAD.replace("orders", "billing.retry.5m"), "sources.0.topic", "looks like a retry tier of this group"),
        (HEAD + "outputs: [{topic: orders}]", "outputs.0.topic", "would consume its own outputs"),
        (HEAD + "outputs: [{topic: a}, {topic: a}]", "outputs.1.topic", "is already an output"),
        (HEAD + "outputs: [{topic: __consumer_offsets}]", "outputs.0.topic", "is an internal topic of Kafka"),
        (HEAD + "outputs: [{topic: DLQ.orders}]", "sources.0.topic", "is ambiguous"),
        # Templates.
        (HEAD + 'topics: {retry: "{group}.r"}', "topics.retry", "lacks {delay}"),
        (HEAD + 'topics: {ready: "{group}.r"}', "topics.ready", "lacks {topic}"),
        (HEAD + 'topics: {retry: "r.{delay}"}', "topics.retry", "lacks {group}"),
        (HEAD + 'topics: {ready: "r.{topic}"}', "topics.ready", "lacks {group}"),
        (HEAD + 'topics: {retry: "billings.{delay}"}', "topics.retry", "lacks {group}"),
        (HEAD + 'topics: {control: "my-billing"}', "topics.control", "lacks {group}"),
        (HEAD + 'topics: {retry: "{group}.{topic}.{delay}"}', "topics.retry", "unknown placeholder {topic}"),
        (HEAD + 'topics: {journal: "{group}.{Topic}"}', "topics.journal", "unknown placeholder {Topic}"),
        (HEAD + 'topics: {retry: "{group} {delay}"}', "topics.retry", "may only contain letters"),
        (strategy("topic: dead"), "policyEntry.deadLetterStrategy.topic", "lacks {topic}"),
        (strategy("kind: shared, topic: 'd.{topic}'"), "policyEntry.deadLetterStrategy.topic", "contains {topic}"),
        (strategy("kind: discarding, topic: d"), "policyEntry.deadLetterStrategy.topic", "has no dead-letter topic"),
        (
            strategy("expiryAddress: 'e.{delay}'"),
            "policyEntry.deadLetterStrategy.expiryAddress",
            "unknown placeholder {delay}",
        ),
        (strategy("expiryAddress: 'DLQ.{topic}'"), "policyEntry.deadLetterStrategy.expiryAddress", "is ambiguous"),
        (strategy("expiryAddress: orders"), "policyEntry.deadLetterStrategy.expiryAddress", "is ambiguous"),
        (strategy("topic: 'd.{topic}.{delay}'"), "policyEntry.deadLetterStrategy.topic", "unknown placeholder {delay}"),
        (strategy("kind: shared, topic: orders"), "policyEntry.deadLetterStrategy.topic", "is ambiguous"),
        # Client settings.
        (kafka("client.id: x"), "kafka", "has no bootstrap.servers"),
        (kafka('bootstrap.servers: ""'), "kafka", "has no bootstrap.servers"),
        (kafka("bootstrap.servers: x, enable.idempotence: false"), "kafka.enable.idempotence", "is off"),
        (
            kafka("bootstrap.servers: x, producer.acks: 1"),
            "kafka.producer.acks",
            "before all in-sync replicas have them",
        ),
        (
            kafka("bootstrap.servers: x, auto.offset.reset: none"),
            "kafka.auto.offset.reset",
            "neither earliest nor latest",
        ),
        (
            kafka("bootstrap.servers: x, group.protocol: consumer") + "instance: w1\nleaveOnStop: true\n",
            "leaveOnStop",
            "cannot leave its group",
        ),
        # Serdes.
        (value("format: avro"), "sources.0.value.format", "neither schemas nor a registry"),
        (value("format: avro, registry: {a: b}"), "sources.0.value.registry", "has no url"),
        (value("schemas: {1: a}"), "sources.0.value.schemas", "is only for format: avro or protobuf or jsonschema"),
        (value("format: protobuf"), "sources.0.value.format", "neither schemas nor a registry"),
        (
            value("format: jsonschema, registry: {url: u}, message: m"),
            "sources.0.value.message",
            "only for format: protobuf",
        ),
        (value("format: json, subject: s"), "sources.0.value.subject", "the format is json"),
        (value("format: avro, schemas: {1: a}, writeId: 2"), "sources.0.value.writeId", "is not in schemas"),
        (value("format: avro, schemas: {1: a}, subject: s"), "sources.0.value.subject", "there is no registry"),
        (
            HEAD + "outputs: [{topic: o, value: {format: avro, schemas: {1: a}}}]",
            "outputs.0.value",
            "does not say which schema",
        ),
        # Handler and limits.
        (HEAD + "handler: {callable: 'a:b', deadline: 0s}", "handler.deadline", "is zero"),
        (
            HEAD + "handler: {callable: 'a:b', slots: 20}\nlimits: {batch: 5, bufferRecords: 10}",
            "handler.slots",
            "more than the 10 records",
        ),
        (HEAD + "handler: {callable: 'a:b', vectorized: true, batch: {}}", "handler.batch", "together with vectorized"),
        (
            HEAD + "handler: {callable: 'a:b', batch: {records: 20}}\nlimits: {batch: 10}",
            "handler.batch.records",
            "is 20 records, more than a commit or the buffer may have (10, from limits)",
        ),
        (
            HEAD + "handler: {callable: 'a:b', batch: {wait: 1s}}\nlimits: {batch: 10}",
            "handler.batch",
            "is 500 records",
        ),
        (
            HEAD + "handler: {callable: 'a:b', ordering: unordered, nonBlockingRedelivery: false}",
            "handler.nonBlockingRedelivery",
            "handler.ordering is unordered",
        ),
        (HEAD + "limits: {batch: 50, bufferRecords: 10}", "limits.bufferRecords", "less than limits.batch (50)"),
        (HEAD + "limits: {rebalanceTimeout: 0s, shutdownTimeout: 0s}", "limits.shutdownTimeout", "less than a second"),
        (HEAD + "metrics: {stalledAfter: 0s}", "metrics.stalledAfter", "less than a second"),
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
        (
            kafka("bootstrap.servers: x, admin.sasl.password: p, admin.sasl.password.file: /p"),
            "kafka.admin.sasl.password.file",
            "is set beside admin.sasl.password",
        ),
        (kafka("bootstrap.servers: x, oauth_cb: shop.token"), "kafka.oauth_cb", "must be package.module:function"),
        (kafka("bootstrap.servers: x, oauth_cb: 'shop:token'"), "kafka.oauth_cb", "no client logs in with one"),
        (
            kafka("bootstrap.servers: x, sasl.mechanism: OAUTHBEARER, oauth_cb: 'shop:token'"),
            "kafka.oauth_cb",
            "no client logs in with one",
        ),
        (
            kafka(f"bootstrap.servers: x, {TOKENS}, producer.sasl.mechanism: PLAIN, producer.oauth_cb: 'shop:token'"),
            "kafka.producer.oauth_cb",
            "no client logs in with one",
        ),
        (
            kafka(f"bootstrap.servers: x, {TOKENS}, oauth_cb: 'shop:token', sasl.oauthbearer.method: oidc"),
            "kafka.oauth_cb",
            "is set beside sasl.oauthbearer.method: oidc",
        ),
        (
            kafka(f"bootstrap.servers: x, {TOKENS}, spark.oauth_cb: 'shop:token'"),
            "kafka.spark.oauth_cb",
            "is for clients in Python only",
        ),
        (HEAD + "journal: true\nmode: auto", "journal", "has no transaction"),
    ],
)
def test_each_rule(text: str, location: str, problem: str) -> None:
    """A broken rule is one fault at its location."""
    ((found_location, found_problem),) = rules(text)
    assert found_location == location
    assert problem in found_problem


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
def test_reserved_client_settings(prefix: str, name: str) -> None:
    """Settings on which the delivery guarantees depend cannot be set for any client."""
    ((location, problem),) = rules(kafka(f"bootstrap.servers: x, {prefix}{name}: true"))
    assert location == f"kafka.{prefix}{name}"
    assert "must not be set" in problem


def test_a_pattern_is_no_source() -> None:
    """The fix names what could not be promised, instead of characters to remove."""
    with pytest.raises(ConfigurationError, match="name each topic: what a pattern will match is unknown at the start"):
        load_settings(HEAD.replace("orders", "'^src-.*'"))


@pytest.mark.parametrize(
    "name", ["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"]
)
def test_settings_of_the_classic_protocol(name: str) -> None:
    """With the new consumer protocol the broker has these settings, and the client refuses them."""
    ((location, problem),) = rules(kafka(f"bootstrap.servers: x, group.protocol: consumer, consumer.{name}: 1"))
    assert location == f"kafka.consumer.{name}"
    assert "does not exist with group.protocol: consumer" in problem
    assert rules(kafka(f"bootstrap.servers: x, group.protocol: classic, {name}: 1")) == []


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD.replace("bootstrap.servers", "metadata.broker.list"),
        kafka("bootstrap.servers: x, acks: all, enable.idempotence: true, auto.offset.reset: latest"),
        HEAD + "handler: {callable: 'a:b', slots: 8, ordering: key, deadline: 1ms}",
        HEAD + "limits: {batch: 10, bufferRecords: 10, rebalanceTimeout: 0s, shutdownTimeout: 1s}",
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
def test_configurations_without_faults(text: str) -> None:
    """No rule is broken."""
    assert rules(text) == []


def test_names_derived_from_an_invalid_group_are_not_reported() -> None:
    """An invalid group is one fault, not one fault per topic."""
    assert len(rules(HEAD.replace("billing", "no/good") + "journal: true\n")) == 1
