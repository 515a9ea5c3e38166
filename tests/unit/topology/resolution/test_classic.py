"""Resolving a Classic configuration for one destination: layers, dead letters and warnings."""

from typing import Any

import pytest

from kafka_redelivery.topology.classic.destination import parse_destination
from kafka_redelivery.topology.classic.layers import LayeredRedelivery
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.classic_section import ClassicSection
from kafka_redelivery.topology.policy.entry import DeadLetterKind
from kafka_redelivery.topology.resolution.classic import ClassicResolution, resolve_classic
from kafka_redelivery.topology.topics.naming import kafka_topic

PLUGIN = {"redeliveryPlugin": {"redeliveryPolicyMap": {"defaultEntry": {"maximumRedeliveries": 2}}}}
DROP_ALL: dict[str, Any] = {"discardingDLQBrokerPlugin": {}}


def resolve(section: dict[str, Any], destination: str = "orders") -> ClassicResolution:
    """Resolve a destination with this ``activemq`` section."""
    found = parse_destination(destination)
    configuration = ClassicSection.model_validate(section, by_alias=True, by_name=False).value()
    return resolve_classic(configuration, found, kafka_topic(found.name), "billing")


def strategy(**properties: object) -> dict[str, Any]:
    """A section with an individual strategy for all queues and topics."""
    chosen = {"deadLetterStrategy": {"individualDeadLetterStrategy": properties}}
    return {"policyEntries": [{"queue": ">", **chosen}, {"topic": ">", **chosen}]}


class TestLayers:
    def test_without_settings_activemqs_default_applies(self) -> None:
        """The default is six redeliveries and one shared dead-letter queue."""
        found = resolve({})
        assert found.redelivery_layer == "default"
        assert found.entry.redelivery_policy == RedeliveryPolicy()
        assert found.entry.dead_letter_strategy.kind is DeadLetterKind.SHARED
        assert found.entry.dead_letter_strategy.topic == "ActiveMQ.DLQ"
        assert found.warnings == ()

    def test_the_map_takes_precedence_over_the_connection(self) -> None:
        """The connection takes precedence over the default."""
        section = {
            "redeliveryPolicy": {"maximumRedeliveries": 1},
            "redeliveryPolicyMap": {"redeliveryPolicyEntries": [{"queue": "a.>", "maximumRedeliveries": 2}]},
        }
        assert (resolve(section, "a.b").redelivery_layer, resolve(section, "b").redelivery_layer) == (
            "redeliveryPolicyMap",
            "redeliveryPolicy",
        )
        assert resolve(section, "a.b").entry.redelivery_policy.max_deliveries == 3

    def test_the_plugin_alone_redelivers_without_a_client_policy(self) -> None:
        """Otherwise the counts would multiply."""
        found = resolve({"plugins": [PLUGIN]})
        assert found.redelivery_layer == "redeliveryPlugin"
        assert found.entry.redelivery_policy.max_deliveries == 3

    def test_client_and_plugin_both_redeliver_if_both_have_policies(self) -> None:
        """Each redelivery by the broker starts a new round of redeliveries by the client."""
        found = resolve({"redeliveryPolicy": {"maximumRedeliveries": 3}, "plugins": [PLUGIN]})
        assert isinstance(found.entry.redelivery_policy, LayeredRedelivery)
        assert found.entry.redelivery_policy.max_deliveries == 9

    def test_a_discarding_plugin_acts_before_those_listed_before_it(self) -> None:
        """If it is listed last, it drops a message before the redelivery plugin sees it."""
        last, first = resolve({"plugins": [PLUGIN, DROP_ALL]}), resolve({"plugins": [DROP_ALL, PLUGIN]})
        assert (last.broker.effective, first.broker.effective) == (False, True)
        assert last.entry.dead_letter_strategy.kind is DeadLetterKind.DISCARDING
        assert first.entry.dead_letter_strategy.kind is DeadLetterKind.DISCARDING

    @pytest.mark.parametrize(
        ("plugin", "by"),
        [
            ({"fallbackToDeadLetter": False}, "fallbackToDeadLetter"),
            (
                {"sendToDlqIfMaxRetriesExceeded": False, "redeliveryPolicyMap": {"defaultEntry": {}}},
                "sendToDlqIfMaxRetriesExceeded",
            ),
        ],
    )
    def test_a_plugin_that_drops_poison_does_not_drop_expired_messages(self, plugin: dict[str, Any], by: str) -> None:
        """It ignores expired messages."""
        found = resolve({"plugins": [{"redeliveryPlugin": plugin}]})
        kept = found.entry.dead_letter_strategy
        assert found.broker.dropped_by == by
        assert (kept.process_poison, kept.process_expired) == (False, True)


class TestDeadLetters:
    def test_the_group_takes_the_place_of_a_durable_subscriber(self) -> None:
        """Its name precedes the suffix, for topics only."""
        section = strategy(destinationPerDurableSubscriber=True, topicSuffix=".lost", topicPrefix="D.")
        assert resolve(section, "topic:news").entry.dead_letter_strategy.topic == "D.news.billing.lost"
        assert str(resolve(section, "topic:news").dead_letter) == "queue:D.news.lost"
        assert resolve(section, "news").entry.dead_letter_strategy.topic == "ActiveMQ.DLQ.Queue.news"

    def test_a_queue_that_is_its_own_dead_letter_queue(self) -> None:
        """The broker would drop its dead letters; here they are kept, with a warning."""
        found = resolve(strategy(queuePrefix=""))
        assert found.entry.dead_letter_strategy.topic == "DLQ.orders"
        assert "the broker drops them" in found.warnings[0].loss

    def test_the_shared_dead_letter_queue_as_a_source(self) -> None:
        """The broker would drop its dead letters; here they are kept."""
        assert resolve({}, "ActiveMQ.DLQ").entry.dead_letter_strategy.topic == "DLQ.ActiveMQ.DLQ"

    def test_a_name_that_kafka_does_not_allow_has_a_warning(self) -> None:
        """The warning has the name of the topic."""
        found = resolve(strategy(queuePrefix="dead/"))
        assert found.entry.dead_letter_strategy.topic == "dead_orders"
        assert "dead_orders" in found.warnings[0].loss

    def test_temporary_destinations_have_entries_of_their_own(self) -> None:
        """An entry for all queues does not match them."""
        section = {"policyEntries": [{"tempQueue": True, "deadLetterStrategy": {"discarding": {}}}]}
        assert resolve(section, "temp-queue:x").entry.dead_letter_strategy.kind is DeadLetterKind.DISCARDING
        assert resolve(section, "x").entry.dead_letter_strategy.kind is DeadLetterKind.SHARED

    def test_non_persistent_records_are_dropped_by_default(self) -> None:
        """As in the broker, but unlike in the simple form of the policy."""
        assert not resolve({}).entry.dead_letter_strategy.accepts(persistent=False, expired=False)
        assert resolve(strategy(processNonPersistent=True)).entry.dead_letter_strategy.accepts(
            persistent=False, expired=False
        )

    def test_a_negative_expiration_means_no_expiration(self) -> None:
        """It has the same meaning in the broker."""
        assert resolve(strategy(expiration=-1)).entry.dead_letter_strategy.expiration == 0


def test_an_unstable_choice_has_a_warning() -> None:
    """The choice may be in any of the maps."""
    entries = [{"queue": "a.*"}, {"queue": "a.>"}]
    for section in (
        {"policyEntries": entries},
        {"redeliveryPolicyMap": {"redeliveryPolicyEntries": entries}},
        {"plugins": [{"redeliveryPlugin": {"redeliveryPolicyMap": {"redeliveryPolicyEntries": entries}}}]},
    ):
        assert any("from run to run" in warning.problem for warning in resolve(section, "a.b").warnings)
