"""Classic's maps and Artemis's address settings give each source its policy, or are refused with their faults."""

import pytest

from kafka_redelivery.topology.artemis.address_settings import AddressSettings
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.cluster.plan import plan
from kafka_redelivery.topology.config.loading import load_policies, load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import ConfigurationError
from kafka_redelivery.topology.policy.entry import DeadLetterKind
from tests.unit.topology.clusters import source

HEAD = """\
group: billing
kafka: {bootstrap.servers: "localhost:9092"}
sources: [{topic: orders.eu}, {topic: news, destination: "topic:news"}]
"""
CLASSIC = """\
activemq:
  policyEntries:
    - queue: "orders.>"
      deadLetterStrategy: {individualDeadLetterStrategy: {queuePrefix: "D.", expiration: 60000}}
    - topic: ">"
      deadLetterStrategy: {discarding: {}}
  redeliveryPolicyMap:
    redeliveryPolicyEntries: [{queue: "orders.*", maximumRedeliveries: 1, redeliveryDelay: 500}]
"""
ARTEMIS = """\
artemis:
  address-settings:
    - {match: "#", dead-letter-address: DLA, auto-create-dead-letter-resources: true, max-delivery-attempts: 3}
    - {match: "orders.#", redelivery-delay: 250, redelivery-delay-multiplier: 2, expiry-address: EXP}
"""


def faults(text: str) -> list[tuple[str, str]]:
    """Path and problem of each fault."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(text)
    return [(fault.location.rpartition(" ")[2], fault.problem) for fault in caught.value.faults]


def planned(settings: Settings) -> dict[str, str]:
    """The topics of the plan, with their retention."""
    sources = {name: source(name) for name in ("orders.eu", "news")}
    return {topic.name: topic.configs.get("retention.ms", "") for topic in plan(settings, sources).topics}


def test_classic_maps_give_each_source_its_policy() -> None:
    """Policy, dead-letter topic and lifetime depend on the name and kind of the destination."""
    settings = load_settings(HEAD + CLASSIC)
    orders, news = settings.entry("orders.eu"), settings.entry("news")
    assert orders.redelivery_policy.max_deliveries == 2
    assert news.redelivery_policy == RedeliveryPolicy()
    assert news.dead_letter_strategy.kind is DeadLetterKind.DISCARDING
    topics = planned(settings)
    assert topics["D.orders.eu"] == "60000"
    assert [name for name in topics if "news" in name] == ["billing.ready.news"]


def test_artemis_settings_give_each_source_its_policy() -> None:
    """The plan has tiers for their delays, a dead-letter topic per address and a topic for expired records."""
    settings = load_settings(HEAD + ARTEMIS)
    policy = settings.entry("orders.eu").redelivery_policy
    assert isinstance(policy, AddressSettings)
    assert (policy.max_delivery_attempts, policy.max_redelivery_delay) == (3, 2500)
    assert {"billing.retry.250ms", "billing.retry.500ms", "DLQ.orders.eu", "DLQ.news", "EXP"} <= planned(
        settings
    ).keys()


def test_the_policy_of_a_source_replaces_the_maps() -> None:
    """The source takes nothing from the maps."""
    own = HEAD.replace("{topic: orders.eu}", "{topic: orders.eu, policy: {redeliveryPolicy: {maximumRedeliveries: 0}}}")
    assert load_settings(own + CLASSIC).entry("orders.eu").redelivery_policy.max_deliveries == 1


def test_the_plan_has_warnings_of_the_maps() -> None:
    """The plan warns of records that the broker would drop."""
    settings = load_settings(HEAD + ARTEMIS)
    warnings = plan(settings, {"news": source("news"), "orders.eu": source("orders.eu")}).warnings
    assert [warning.topic for warning in warnings] == ["news"]
    assert "when they expire" in warnings[0].problem


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        (CLASSIC + ARTEMIS, "artemis", "is used together with activemq"),
        (CLASSIC + "policyEntry: {maximumHandlerDelay: 1h}\n", "activemq", "is used together with policyEntry"),
        ("activemq: {policyEntries: [{}]}", "activemq.policyEntries.0", "does not say which destinations"),
        (
            "activemq: {policyEntries: [{queue: a, topic: b}]}",
            "activemq.policyEntries.0",
            "has queue and topic",
        ),
        ('activemq: {policyEntries: [{queue: " "}]}', "activemq.policyEntries.0.queue", "not empty"),
        (
            "activemq: {policyEntries: [{queue: a, deadLetterStrategy: {discarding: null}}]}",
            "activemq.policyEntries.0.deadLetterStrategy",
            "is empty",
        ),
        (
            "activemq: {defaultEntry: {deadLetterStrategy: {discarding: {}, sharedDeadLetterStrategy: {}}}}",
            "activemq.defaultEntry.deadLetterStrategy",
            "has discarding and sharedDeadLetterStrategy",
        ),
        ("activemq: {plugins: [{}]}", "activemq.plugins.0", "is empty"),
        (
            'activemq: {plugins: [{discardingDLQBrokerPlugin: {dropOnly: "a["}}]}',
            "activemq.plugins.0.discardingDLQBrokerPlugin.dropOnly",
            "is not a regular expression",
        ),
        (
            "activemq: {redeliveryPolicy: {redeliveryDelay: 9223372036854775808}}",
            "activemq.redeliveryPolicy.redeliveryDelay",
            "does not fit into 64 bits",
        ),
        (
            "activemq: {redeliveryPolicyMap: {redeliveryPolicyEntries: [{queue: a, collisionAvoidanceFactor: .inf}]}}",
            "activemq.redeliveryPolicyMap.redeliveryPolicyEntries.0.collisionAvoidanceFactor",
            "is not a finite number",
        ),
        ("artemis: {address-settings: [{match: 'a.#.b'}]}", "artemis.address-settings.0.match", "only at its end"),
        (
            "artemis: {address-settings: [{match: a}, {match: a}]}",
            "artemis.address-settings.1.match",
            "only one of them would apply",
        ),
        (
            "artemis: {address-settings: [{match: 'a::q'}, {match: a}]}",
            "artemis.address-settings.1.match",
            "only one of them would apply",
        ),
        (
            "artemis: {wildcard-addresses: {delimiter: '#'}}",
            "artemis.wildcard-addresses",
            "the same character twice",
        ),
        (
            "artemis: {address-settings: [{match: a, redelivery_delay: 5}]}",
            "artemis.address-settings.0.redelivery_delay",
            "is not known",
        ),
        (
            "artemis: {address-settings: [{match: a, redelivery-collision-avoidance-factor: 2}]}",
            "artemis.address-settings.0.redelivery-collision-avoidance-factor",
            "must be at most 1",
        ),
    ],
)
def test_faults_of_maps(text: str, path: str, problem: str) -> None:
    """Each is one fault at its location."""
    found = faults(HEAD + text)
    assert [location for location, _ in found] == [path]
    assert problem in found[0][1]


def test_a_variable_overrides_an_address_setting() -> None:
    """A variable has underscores in place of dashes."""
    variables = {"REDELIVERY_ARTEMIS__ADDRESS_SETTINGS__0__MAX_DELIVERY_ATTEMPTS": "9"}
    settings = load_settings(HEAD + ARTEMIS, environment=variables)
    assert settings.entry("news").redelivery_policy.max_deliveries == 9


def test_a_dead_letter_topic_that_is_a_source_is_refused() -> None:
    """The group would consume its own dead letters in an endless loop."""
    text = HEAD.replace("topic: news,", "topic: DLQ.orders.eu,").replace('"topic:news"', '"topic:x"')
    assert "is ambiguous" in faults(text + ARTEMIS)[0][1]


class TestLoadPolicies:
    """Policies can be loaded from an incomplete configuration."""

    def test_group_kafka_and_sources_may_be_missing(self) -> None:
        """Stand-ins take their place."""
        settings, known = load_policies(CLASSIC)
        assert not known
        assert settings.activemq is not None

    def test_existing_sources_are_used(self) -> None:
        """They may be in the file or in a flag."""
        assert load_policies(HEAD + CLASSIC)[1]
        settings, known = load_policies(CLASSIC, overrides=["sources=[{topic: mine}]"])
        assert (known, settings.sources[0].topic) == (True, "mine")

    def test_faults_are_reported(self) -> None:
        """The parts that exist are checked."""
        with pytest.raises(ConfigurationError):
            load_policies("activemq: {policyEntries: [{}]}")

    def test_invalid_yaml_is_reported(self) -> None:
        """The same error as for a complete configuration."""
        with pytest.raises(ConfigurationError):
            load_policies("activemq: [")
