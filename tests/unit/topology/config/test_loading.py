"""A configuration becomes settings, or is refused with its faults, each with its location and a fix."""

from datetime import timedelta

import pytest

from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import ConfigurationError, Fault
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode

MINIMAL = """\
group: billing
kafka: {bootstrap.servers: "localhost:9092"}
sources:
  - topic: orders
"""


def faults(text: str, **given: object) -> tuple[Fault, ...]:
    """All faults of a configuration that has some."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(text, **given)  # type: ignore[arg-type]
    return caught.value.faults


def test_minimal_file_gets_every_default() -> None:
    """Group, brokers and one source are enough."""
    assert load_settings(MINIMAL) == Settings.model_validate(
        {"group": "billing", "kafka": {"bootstrap.servers": "localhost:9092"}, "sources": [{"topic": "orders"}]}
    )


def test_activemq_names_reach_the_policy() -> None:
    """Every property of the redelivery policy is written as ActiveMQ writes it."""
    policy = """\
policyEntry:
  redeliveryPolicy:
    maximumRedeliveries: 0
    initialRedeliveryDelay: 0
    redeliveryDelay: 0
    useExponentialBackOff: true
    backOffMultiplier: 0
    maximumRedeliveryDelay: 0
    useCollisionAvoidance: true
    collisionAvoidancePercent: 0
"""
    read = load_settings(MINIMAL + policy).entry("orders").redelivery_policy
    assert isinstance(read, RedeliveryPolicy)
    assert (read.maximum_redeliveries, read.initial_redelivery_delay, read.redelivery_delay) == (0, 0, 0)
    assert (read.use_exponential_back_off, read.back_off_multiplier, read.maximum_redelivery_delay) == (True, 0.0, 0)
    assert (read.use_collision_avoidance, read.collision_avoidance_factor) == (True, 0.0)


def test_all_wrong_names_types_and_variables_are_reported_together() -> None:
    """Syntax, names and types are checked first; rules are checked in a second step."""
    text = """\
group: billing
kafka:
  bootstrap.servers: localhost:9092
  enable.auto.commit: true
sources:
  - topic: orders
policyEntry:
  redeliveryPolicy:
    maximumRedeliveries: lots
    backoffMultiplier: 2
mode: ${MODE}
topics:
  ready: "{group}.ready"
"""
    found = faults(text, name="my.yaml", environment={"REDELIVERY_LIMITS__BACH": "5"})
    assert [fault.location for fault in found] == [
        "my.yaml:9:26 policyEntry.redeliveryPolicy.maximumRedeliveries",
        "my.yaml:10:5 policyEntry.redeliveryPolicy.backoffMultiplier",
        "my.yaml:11:7 mode",
        "REDELIVERY_LIMITS__BACH",
    ]
    assert all(fault.problem and fault.fix for fault in found)


def test_all_broken_rules_are_reported_together() -> None:
    """A reserved client setting and a template without its placeholder, in a file whose names and types are right."""
    text = MINIMAL.replace("{bootstrap", "{enable.auto.commit: true, bootstrap")
    found = faults(text + 'topics:\n  ready: "{group}.ready"\n', name="my.yaml")
    assert [fault.location for fault in found] == ["my.yaml:2:9 kafka.enable.auto.commit", "my.yaml:6:10 topics.ready"]
    assert all(fault.problem and fault.fix for fault in found)


def test_the_error_lists_every_fault() -> None:
    """The text of the error has the location and the fix of each fault."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings("group: billing\n")
    lines = str(caught.value).splitlines()
    assert lines[0] == "the configuration has 2 faults"
    assert lines[1:] == [f"  {fault.location}: {fault.problem}; {fault.fix}" for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("line", "location", "problem", "fix"),
    [
        (
            "mode: fast",
            "5:7 mode",
            "must be 'transacted', 'auto', 'dups_ok', 'client' or 'individual', not 'fast'",
            "write one of these",
        ),
        ("journal: 7", "5:10 journal", "must be true or false, not 7", "write true or false"),
        ("group2: x", "5:1 group2", "is not known", "did you mean group?"),
        ("slots: 4", "5:1 slots", "is not known", "move it to handler"),
        ("inst: a", "5:1 inst", "is not known", "did you mean instance?"),
        ("policy_entry: {}", "5:1 policy_entry", "is not known", "did you mean policyEntry?"),
        ("limits: {batch: 0}", "5:17 limits.batch", "must be at least 1, not 0", "write 1 or more"),
        ("limits: {batch: 1.5}", "5:17 limits.batch", "must be a whole number, not 1.5", "write digits only"),
        (
            "policyEntry: {redeliveryPolicy: {initialRedeliveryDelay: 90s}}",
            "5:58 policyEntry.redeliveryPolicy.initialRedeliveryDelay",
            "must be a whole number, not '90s'",
            "write milliseconds: 90000",
        ),
        ("limits: {batch: 5s}", "5:17 limits.batch", "must be a whole number, not '5s'", "write digits only"),
        (
            "policyEntry: {deadLetterStrategy: {sharedDeadLetterStrategy: {}}}",
            "5:36 policyEntry.deadLetterStrategy.sharedDeadLetterStrategy",
            "is not known",
            (
                "move it to activemq.defaultEntry.deadLetterStrategy, or use one of kind, topic, processExpired, "
                "enableAudit, expiration, expiryAddress"
            ),
        ),
        ("limits: {batch: yes}", "5:17 limits.batch", "must be a number, not true or false", None),
        ("limits: {batch: [1]}", "5:17 limits.batch", "must be a whole number", None),
        ("limits: 5", "5:9 limits", "must be a mapping of names to values", None),
        ("limits:", "5:8 limits", "has no value", "write a value, or remove the line"),
        ("metrics: {port: 70000}", "5:17 metrics.port", "must be at most 65535, not 70000", "write 65535 or less"),
        ("instance: a b", "5:11 instance", "contains characters that are not allowed: 'a b'", None),
        ("outputs: {topic: x}", "5:10 outputs", "must be a list", None),
        ("outputs: [{}]", "5:11 outputs.0.topic", "is missing", "add topic: orders"),
        ("handler: {callable: no}", "5:21 handler.callable", "must be text, not False", "put it in quotes"),
        ("handler: {}", "5:1 handler.callable", "is missing", "add callable: package.module:function"),
        (
            "handler: {callable: nowhere}",
            "5:21 handler.callable",
            "must be package.module:function, not 'nowhere'",
            "write one colon between the module and the function",
        ),
        (
            "handler: {callable: shop.handlers.charge}",
            "5:21 handler.callable",
            "must be package.module:function, not 'shop.handlers.charge'",
            "did you mean shop.handlers:charge?",
        ),
        (
            "handler: {callable: 'a.b:c:d'}",
            "5:21 handler.callable",
            "must be package.module:function, not 'a.b:c:d'",
            "write one colon between the module and the function",
        ),
        ("handler: {callable: 'a:b', deadline: 5}", "5:38 handler.deadline", "5 is not a duration", None),
        ("handler: {callable: 'a:b', notRetryable: x}", "5:42 handler.notRetryable", "must be a list", None),
        ("metrics: {host: 5}", "5:17 metrics.host", "must be text, not 5", "put it in quotes"),
    ],
)
def test_wrong_names_and_values(line: str, location: str, problem: str, fix: str | None) -> None:
    """Each is one fault at its own location."""
    (fault,) = faults(MINIMAL + line + "\n")
    assert fault.location == f"redelivery.yaml:{location}"
    assert problem in fault.problem
    assert fix is None or fault.fix == fix


def test_python_names_are_refused() -> None:
    """The file has camelCase names only."""
    found = faults(MINIMAL + "policyEntry: {redelivery_policy: {}}\n")
    assert [fault.fix for fault in found] == ["did you mean redeliveryPolicy?"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("maxRedeliveryDelay", "did you mean maximumRedeliveryDelay?"),
        ("maxRedeliveries", "did you mean maximumRedeliveries?"),
        ("initialDelay", "did you mean initialRedeliveryDelay?"),
        ("redeliveryDelays", "did you mean redeliveryDelay?"),
    ],
)
def test_the_suggestion_for_an_abbreviated_name(name: str, meant: str) -> None:
    """The full name is suggested even if another name is more similar."""
    (found,) = faults(MINIMAL + f"policyEntry: {{redeliveryPolicy: {{{name}: 5}}}}\n")
    assert found.fix == meant


def test_faults_of_client_settings_never_show_their_values() -> None:
    """A malformed password must not appear in a log."""
    found = faults(MINIMAL.replace("{bootstrap", "{sasl.password: [hunter2], bootstrap"))
    assert [fault.location for fault in found] == ["redelivery.yaml:2:24 kafka.sasl.password"]
    assert "hunter2" not in str(found)


def test_a_client_setting_may_be_text_a_number_or_a_boolean() -> None:
    """Kafka client settings are passed through as they are written."""
    text = MINIMAL.replace("{bootstrap", "{a: 1, b: 1.5, c: true, d: x, bootstrap")
    kafka = load_settings(text).kafka
    assert [kafka[name] for name in "abcd"] == ["1", "1.5", "true", "x"]


def test_an_empty_list_of_sources_is_one_fault() -> None:
    """Sources are required."""
    found = faults("group: billing\nkafka: {bootstrap.servers: x}\nsources: []\n")
    assert [(fault.location, fault.problem) for fault in found] == [("redelivery.yaml:3:10 sources", "has no items")]


def test_an_unset_variable_is_one_fault() -> None:
    """The empty value in its place is not reported as a second fault."""
    found = faults(MINIMAL + "mode: ${MODE}\n")
    assert [fault.problem for fault in found] == ["needs the environment variable MODE, which is not set"]


def test_precedence_is_flag_environment_file() -> None:
    """A flag takes precedence over a variable, which takes precedence over the file."""
    text = MINIMAL + "limits: {batch: 1, bufferRecords: 2, shutdownTimeout: 1m}\nmode: auto\n"
    read = load_settings(
        text,
        environment={"REDELIVERY_LIMITS__BATCH": "10", "REDELIVERY_LIMITS__BUFFER_RECORDS": "20"},
        overrides=["limits.batch=15"],
    )
    assert read.limits.batch == 15
    assert read.limits.buffer_records == 20
    assert read.limits.shutdown_timeout == timedelta(minutes=1)
    assert read.mode is AcknowledgementMode.AUTO


def test_the_location_of_an_overridden_value_is_the_override() -> None:
    """For wrong values and for broken rules, the location is the variable or flag, not the file."""
    text = MINIMAL + "limits: {batch: 5}\n"
    environment = {"REDELIVERY_LIMITS__BATCH": "x", "REDELIVERY_MODE": "no"}
    found = faults(text, environment=environment, overrides=["journal=maybe"])
    assert {fault.location for fault in found} == {"REDELIVERY_LIMITS__BATCH", "REDELIVERY_MODE", "--set journal"}
    found = faults(text, environment={"REDELIVERY_LIMITS": "{shutdownTimeout: 1s}"}, overrides=["kafka.acks=1"])
    assert {fault.location for fault in found} == {"REDELIVERY_LIMITS", "--set kafka.acks"}


def test_an_empty_file_lacks_the_required_settings() -> None:
    """Group, Kafka settings and sources are missing."""
    assert [fault.problem for fault in faults("")] == ["is missing"] * 3


def test_a_file_can_be_made_of_overrides_alone() -> None:
    """The environment alone can configure a container."""
    read = load_settings(
        "",
        environment={
            "REDELIVERY_GROUP": "billing",
            "REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": "kafka:9092",
            "REDELIVERY_SOURCES__0__TOPIC": "orders",
        },
    )
    assert (read.group, read.kafka, read.sources[0].topic) == ("billing", {"bootstrap.servers": "kafka:9092"}, "orders")


def test_faults_come_in_the_order_of_the_file() -> None:
    """They are sorted by line and column as numbers; faults of variables and flags come last."""
    text = (
        "journal: maybe\nlimits: {batch: x,   bufferRecords: y}\n"
        + MINIMAL
        + "handler: {callable: cli:run}\nmode: fast\n"
    )
    found = faults(text, name="my.yaml", overrides=["metrics.port=x"], environment={"REDELIVERY_NONSENSE": "1"})
    places = [fault.location.removeprefix("my.yaml:").split(" ")[0] for fault in found]
    assert places[:3] == ["1:10", "2:17", "2:37"]
    lines = [int(location.split(":")[0]) for location in places if location[0].isdigit()]
    assert lines == sorted(lines)
    assert len(lines) == len(found) - 2
    assert {fault.location for fault in found[-2:]} == {"REDELIVERY_NONSENSE", "--set metrics.port"}
