"""Maps of either dialect become policies of the sources, or tell all their faults at once."""

import pytest

from tests.unit.topology.clusters import source
from topology.configuration import ConfigurationError, load_policies, load_settings
from topology.plan import plan
from topology.policy import AddressSettings, DeadLetterKind, RedeliveryPolicy
from topology.redelivery import most_deliveries
from topology.settings import Settings

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
    return [(fault.place.rpartition(" ")[2], fault.problem) for fault in caught.value.faults]


def planned(settings: Settings) -> dict[str, str]:
    """The topics of the plan, with their retention."""
    sources = {name: source(name) for name in ("orders.eu", "news")}
    return {topic.name: topic.configs["retention.ms"] for topic in plan(settings, sources).topics}


def test_classics_maps_decide_about_each_source() -> None:
    """Policy, dead-letter topic and its life; the kind of destination tells two sources apart."""
    settings = load_settings(HEAD + CLASSIC)
    orders, news = settings.entry("orders.eu"), settings.entry("news")
    assert most_deliveries(orders.redelivery_policy) == 2
    assert news.redelivery_policy == RedeliveryPolicy()
    assert news.dead_letter_strategy.kind is DeadLetterKind.DISCARDING
    topics = planned(settings)
    assert topics["D.orders.eu"] == "60000"
    assert [name for name in topics if "news" in name] == ["billing.ready.news"]


def test_artemis_settings_decide_about_each_source() -> None:
    """Tiers for their delays, dead-letter topics for each address, a topic for expired ones."""
    settings = load_settings(HEAD + ARTEMIS)
    policy = settings.entry("orders.eu").redelivery_policy
    assert isinstance(policy, AddressSettings)
    assert (policy.max_delivery_attempts, policy.max_redelivery_delay) == (3, 2500)
    assert {"billing.retry.250ms", "billing.retry.500ms", "DLQ.orders.eu", "DLQ.news", "EXP"} <= planned(
        settings
    ).keys()


def test_a_sources_own_policy_stands_above_the_maps() -> None:
    """As a whole."""
    own = HEAD.replace("{topic: orders.eu}", "{topic: orders.eu, policy: {redeliveryPolicy: {maximumRedeliveries: 0}}}")
    assert most_deliveries(load_settings(own + CLASSIC).entry("orders.eu").redelivery_policy) == 1


def test_the_plan_tells_what_the_maps_mean() -> None:
    """What a broker would lose is a warning of the plan."""
    settings = load_settings(HEAD + ARTEMIS)
    warnings = plan(settings, {"news": source("news"), "orders.eu": source("orders.eu")}).warnings
    assert [warning.topic for warning in warnings] == ["news"]
    assert "when they expire" in warnings[0].problem


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        (CLASSIC + ARTEMIS, "artemis", "is given beside activemq"),
        (CLASSIC + "policyEntry: {maximumHandlerDelay: 1h}\n", "activemq", "is given beside policyEntry"),
        ("activemq: {policyEntries: [{}]}", "activemq.policyEntries.0", "does not say which destinations"),
        (
            "activemq: {policyEntries: [{queue: a, topic: b}]}",
            "activemq.policyEntries.0",
            "says both queue and topic",
        ),
        ('activemq: {policyEntries: [{queue: " "}]}', "activemq.policyEntries.0.queue", "not empty"),
        (
            "activemq: {policyEntries: [{queue: a, deadLetterStrategy: {discarding: null}}]}",
            "activemq.policyEntries.0.deadLetterStrategy",
            "names nothing that has a value",
        ),
        (
            "activemq: {defaultEntry: {deadLetterStrategy: {discarding: {}, sharedDeadLetterStrategy: {}}}}",
            "activemq.defaultEntry.deadLetterStrategy",
            "holds discarding and sharedDeadLetterStrategy",
        ),
        ("activemq: {plugins: [{}]}", "activemq.plugins.0", "names nothing"),
        (
            'activemq: {plugins: [{discardingDLQBrokerPlugin: {dropOnly: "a["}}]}',
            "activemq.plugins.0.discardingDLQBrokerPlugin.dropOnly",
            "is no regular expression",
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
            "only one can count",
        ),
        (
            "artemis: {address-settings: [{match: 'a::q'}, {match: a}]}",
            "artemis.address-settings.1.match",
            "only one can count",
        ),
        (
            "artemis: {wildcard-addresses: {delimiter: '#'}}",
            "artemis.wildcard-addresses",
            "one character for two things",
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
def test_a_fault_names_its_place(text: str, path: str, problem: str) -> None:
    """One fault, one message."""
    found = faults(HEAD + text)
    assert [place for place, _ in found] == [path]
    assert problem in found[0][1]


def test_a_variable_can_set_what_stands_in_a_map() -> None:
    """Names with dashes are written with underscores there."""
    variables = {"REDELIVERY_ARTEMIS__ADDRESS_SETTINGS__0__MAX_DELIVERY_ATTEMPTS": "9"}
    settings = load_settings(HEAD + ARTEMIS, environment=variables)
    assert most_deliveries(settings.entry("news").redelivery_policy) == 9


def test_two_sources_whose_dead_letters_would_meet_are_refused() -> None:
    """A dead-letter topic that is a source, too, would be consumed for ever."""
    text = HEAD.replace("topic: news,", "topic: DLQ.orders.eu,").replace('"topic:news"', '"topic:x"')
    assert "is ambiguous" in faults(text + ARTEMIS)[0][1]


class TestPartly:
    """What is said about destinations can be read before the rest is there."""

    def test_group_kafka_and_sources_may_be_missing(self) -> None:
        """Stand-ins are taken."""
        settings, known = load_policies(CLASSIC)
        assert not known
        assert settings.activemq is not None

    def test_what_is_there_counts(self) -> None:
        """Also if it stands in a flag."""
        assert load_policies(HEAD + CLASSIC)[1]
        settings, known = load_policies(CLASSIC, overrides=["sources=[{topic: mine}]"])
        assert (known, settings.sources[0].topic) == (True, "mine")

    def test_faults_are_faults(self) -> None:
        """Of what is there."""
        with pytest.raises(ConfigurationError):
            load_policies("activemq: {policyEntries: [{}]}")

    def test_a_file_that_cannot_be_read_is_told(self) -> None:
        """As always."""
        with pytest.raises(ConfigurationError):
            load_policies("activemq: [")
