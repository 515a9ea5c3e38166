"""A configuration becomes settings, or tells all its faults at once, each with its place and mend."""

from datetime import timedelta

import pytest

from topology.acknowledgement import AcknowledgementMode
from topology.configuration import ConfigurationError, Fault, load_settings
from topology.policy import RedeliveryPolicy
from topology.settings import Settings

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


def test_five_different_faults_are_five_with_their_places() -> None:
    """A wrong type, an unknown name, a broken rule, an owned setting and a bad variable: all at once."""
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
topics:
  ready: "{group}.ready"
"""
    found = faults(text, name="my.yaml", environment={"REDELIVERY_LIMITS__BACH": "5"})
    assert {fault.place for fault in found} == {
        "my.yaml:9:26 policyEntry.redeliveryPolicy.maximumRedeliveries",
        "my.yaml:10:5 policyEntry.redeliveryPolicy.backoffMultiplier",
        "my.yaml:4:3 kafka.enable.auto.commit",
        "my.yaml:12:10 topics.ready",
        "REDELIVERY_LIMITS__BACH",
    }
    assert len(found) == 5
    assert all(fault.problem and fault.mend for fault in found)


def test_the_error_lists_every_fault() -> None:
    """Whoever only prints the error sees each place and mend."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings("group: billing\n")
    lines = str(caught.value).splitlines()
    assert lines[0] == "the configuration has 2 faults"
    assert lines[1:] == [f"  {fault.place}: {fault.problem}; {fault.mend}" for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("line", "place", "problem", "mend"),
    [
        (
            "mode: fast",
            "5:7 mode",
            "must be 'transacted', 'auto', 'dups_ok', 'client' or 'individual', not 'fast'",
            "write one of these",
        ),
        ("journal: 7", "5:10 journal", "must be true or false, not 7", "write true or false"),
        ("group2: x", "5:1 group2", "is not known", "did you mean group?"),
        ("slots: 4", "5:1 slots", "is not known", "it belongs in handler"),
        ("inst: a", "5:1 inst", "is not known", "did you mean instance?"),
        ("policy_entry: {}", "5:1 policy_entry", "is not known", "did you mean policyEntry?"),
        ("limits: {batch: 0}", "5:17 limits.batch", "must be at least 1, not 0", "write 1 or more"),
        ("limits: {batch: 1.5}", "5:17 limits.batch", "must be a whole number, not 1.5", "write digits alone"),
        ("limits: {batch: yes}", "5:17 limits.batch", "must be a number, not true or false", None),
        ("limits: {batch: [1]}", "5:17 limits.batch", "must be a whole number", None),
        ("limits: 5", "5:9 limits", "must hold names and values", None),
        ("limits:", "5:8 limits", "has no value", "write one, or remove the line"),
        ("metrics: {port: 70000}", "5:17 metrics.port", "must be at most 65535, not 70000", "write 65535 or less"),
        ("instance: a b", "5:11 instance", "does not have the form it needs, not 'a b'", None),
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
        ("handler: {callable: 'a:b', deadline: 5}", "5:38 handler.deadline", "is 5, which is no duration", None),
        ("handler: {callable: 'a:b', notRetryable: x}", "5:42 handler.notRetryable", "must be a list", None),
        ("metrics: {host: 5}", "5:17 metrics.host", "must be text, not 5", "put it in quotes"),
    ],
)
def test_what_the_shape_refuses(line: str, place: str, problem: str, mend: str | None) -> None:
    """Each kind of wrong value is one fault in plain words, at its own place."""
    (fault,) = faults(MINIMAL + line + "\n")
    assert fault.place == f"redelivery.yaml:{place}"
    assert problem in fault.problem
    assert mend is None or fault.mend == mend


def test_python_names_are_refused_in_the_file() -> None:
    """There is one way to write a name."""
    found = faults(MINIMAL + "policyEntry: {redelivery_policy: {}}\n")
    assert [fault.mend for fault in found] == ["did you mean redeliveryPolicy?"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("maxRedeliveryDelay", "did you mean maximumRedeliveryDelay?"),
        ("maxRedeliveries", "did you mean maximumRedeliveries?"),
        ("initialDelay", "did you mean initialRedeliveryDelay?"),
        ("redeliveryDelays", "did you mean redeliveryDelay?"),
    ],
)
def test_a_shortened_name_means_the_one_that_it_shortens(name: str, meant: str) -> None:
    """Also where another one looks more alike."""
    (found,) = faults(MINIMAL + f"policyEntry: {{redeliveryPolicy: {{{name}: 5}}}}\n")
    assert found.mend == meant


def test_a_wrong_item_of_a_list_hides_no_broken_rule() -> None:
    """What stands in the way of one value must not keep the others from being judged."""
    text = MINIMAL.replace("bootstrap.servers", "bootstrap.server")
    found = faults(text + "handler: {callable: 'a:b', notRetryable: [ValueError, 3]}\n")
    assert [(fault.place.partition(" ")[2], fault.problem) for fault in found] == [
        ("kafka", "has no bootstrap.servers"),
        ("handler.notRetryable.1", "must be text, not 3"),
    ]


def test_faults_of_client_settings_never_show_their_values() -> None:
    """A password in the wrong form must not end up in a log."""
    found = faults(MINIMAL.replace("{bootstrap", "{sasl.password: [hunter2], bootstrap"))
    assert [fault.place for fault in found] == ["redelivery.yaml:2:24 kafka.sasl.password"]
    assert "hunter2" not in str(found)


def test_a_client_setting_may_be_text_number_or_truth() -> None:
    """Kafka client settings pass through as they are written."""
    text = MINIMAL.replace("{bootstrap", "{a: 1, b: 1.5, c: true, d: x, bootstrap")
    kafka = load_settings(text).kafka
    assert [kafka[name] for name in "abcd"] == [1, 1.5, True, "x"]


def test_a_wrong_value_silences_only_the_rules_that_looked_at_it() -> None:
    """limits.batch cannot be read, so nothing is said about bufferRecords, but about the rest."""
    found = faults(MINIMAL + "limits: {batch: x, bufferRecords: 1, shutdownTimeout: 1s}\n")
    assert [fault.place.partition(" ")[2] for fault in found] == ["limits.batch", "limits.shutdownTimeout"]


def test_a_missing_source_is_told_once() -> None:
    """A stand-in for what is missing has no faults of its own."""
    found = faults("group: billing\nkafka: {bootstrap.servers: x}\nsources: []\n")
    assert [(fault.place, fault.problem) for fault in found] == [("redelivery.yaml:3:10 sources", "has no items")]


def test_a_variable_that_is_not_set_is_told_once() -> None:
    """The empty value it leaves behind is no fault of its own."""
    found = faults(MINIMAL + "mode: ${MODE}\n")
    assert [fault.problem for fault in found] == ["needs the environment variable MODE, which is not set"]


def test_precedence_is_flag_environment_file() -> None:
    """A flag stands above a variable, which stands above the file."""
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


def test_a_fault_of_an_override_is_told_at_the_override() -> None:
    """A refused value, and a broken rule: the place is the variable or flag that set it, not the file."""
    text = MINIMAL + "limits: {batch: 5}\n"
    environment = {
        "REDELIVERY_LIMITS__BATCH": "x",
        "REDELIVERY_LIMITS": "{shutdownTimeout: 1s}",
        "REDELIVERY_MODE": "no",
    }
    found = faults(text, environment=environment, overrides=["topics.ready={group}", "journal=maybe"])
    assert {fault.place for fault in found} == {
        "REDELIVERY_LIMITS",
        "REDELIVERY_LIMITS__BATCH",
        "REDELIVERY_MODE",
        "--set topics.ready",
        "--set journal",
    }


def test_an_empty_file_lacks_everything() -> None:
    """An empty file is told what it needs."""
    assert [fault.problem for fault in faults("")] == ["is missing"] * 3


def test_a_file_can_be_made_of_overrides_alone() -> None:
    """A container without a file can be configured by its environment."""
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
    """By line, then by column as numbers; those that are not of the file come last."""
    text = (
        "journal: maybe\nlimits: {batch: x,   bufferRecords: y}\n"
        + MINIMAL
        + "handler: {callable: cli:run}\nmode: fast\n"
    )
    found = faults(text, name="my.yaml", overrides=["metrics.port=x"], environment={"REDELIVERY_NONSENSE": "1"})
    places = [fault.place.removeprefix("my.yaml:").split(" ")[0] for fault in found]
    assert places[:3] == ["1:10", "2:17", "2:37"]
    lines = [int(place.split(":")[0]) for place in places if place[0].isdigit()]
    assert lines == sorted(lines)
    assert len(lines) == len(found) - 2
    assert {fault.place for fault in found[-2:]} == {"REDELIVERY_NONSENSE", "--set metrics.port"}
