"""What a Classic configuration means for one destination: layers, dead letters, and what is told."""

from typing import Any

import pytest

from topology.classic.destination import parse_destination
from topology.classic.resolution import ClassicResolution, resolve_classic
from topology.classic.settings import ClassicSection
from topology.kafka_names import kafka_topic
from topology.policy import DeadLetterKind, LayeredRedelivery, RedeliveryPolicy
from topology.redelivery import most_deliveries

PLUGIN = {"redeliveryPlugin": {"redeliveryPolicyMap": {"defaultEntry": {"maximumRedeliveries": 2}}}}
DROP_ALL: dict[str, Any] = {"discardingDLQBrokerPlugin": {}}


def resolve(section: dict[str, Any], destination: str = "orders") -> ClassicResolution:
    """Resolve a destination of a configuration as it stands in the file."""
    found = parse_destination(destination)
    configuration = ClassicSection.model_validate(section, by_alias=True, by_name=False).value()
    return resolve_classic(configuration, found, kafka_topic(found.name), "billing")


def strategy(**properties: object) -> dict[str, Any]:
    """One entry for everything with an individual strategy."""
    chosen = {"deadLetterStrategy": {"individualDeadLetterStrategy": properties}}
    return {"policyEntries": [{"queue": ">", **chosen}, {"topic": ">", **chosen}]}


class TestLayers:
    def test_without_anything_it_is_activemqs_default(self) -> None:
        """Six redeliveries, one shared dead-letter queue."""
        found = resolve({})
        assert found.redelivery_layer == "default"
        assert found.entry.redelivery_policy == RedeliveryPolicy()
        assert found.entry.dead_letter_strategy.kind is DeadLetterKind.SHARED
        assert found.entry.dead_letter_strategy.topic == "ActiveMQ.DLQ"
        assert found.warnings == ()

    def test_the_map_stands_above_the_connection(self) -> None:
        """And the connection above the default."""
        section = {
            "redeliveryPolicy": {"maximumRedeliveries": 1},
            "redeliveryPolicyMap": {"redeliveryPolicyEntries": [{"queue": "a.>", "maximumRedeliveries": 2}]},
        }
        assert (resolve(section, "a.b").redelivery_layer, resolve(section, "b").redelivery_layer) == (
            "redeliveryPolicyMap",
            "redeliveryPolicy",
        )
        assert most_deliveries(resolve(section, "a.b").entry.redelivery_policy) == 3

    def test_the_plugin_alone_does_it_if_nothing_is_said_of_the_client(self) -> None:
        """Both would multiply."""
        found = resolve({"plugins": [PLUGIN]})
        assert found.redelivery_layer == "redeliveryPlugin"
        assert most_deliveries(found.entry.redelivery_policy) == 3

    def test_client_and_plugin_redeliver_both_if_both_are_given(self) -> None:
        """Their counts interleave."""
        found = resolve({"redeliveryPolicy": {"maximumRedeliveries": 3}, "plugins": [PLUGIN]})
        assert isinstance(found.entry.redelivery_policy, LayeredRedelivery)
        assert most_deliveries(found.entry.redelivery_policy) == 9

    def test_a_discarding_plugin_acts_before_those_listed_before_it(self) -> None:
        """Listed last, it drops before the redelivery plugin sees the message."""
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
    def test_a_plugin_that_drops_poison_leaves_the_expired_alone(self, plugin: dict[str, Any], by: str) -> None:
        """It does not look at them."""
        found = resolve({"plugins": [{"redeliveryPlugin": plugin}]})
        kept = found.entry.dead_letter_strategy
        assert found.broker.dropped_by == by
        assert (kept.process_poison, kept.process_expired) == (False, True)


class TestDeadLetters:
    def test_the_group_is_the_durable_subscriber(self) -> None:
        """Its name stands before the suffix, of a topic only."""
        section = strategy(destinationPerDurableSubscriber=True, topicSuffix=".lost", topicPrefix="D.")
        assert resolve(section, "topic:news").entry.dead_letter_strategy.topic == "D.news.billing.lost"
        assert str(resolve(section, "topic:news").dead_letter) == "queue:D.news.lost"
        assert resolve(section, "news").entry.dead_letter_strategy.topic == "ActiveMQ.DLQ.Queue.news"

    def test_a_queue_that_is_its_own_dead_letter_queue_loses_nothing_here(self) -> None:
        """There it does; it is told."""
        found = resolve(strategy(queuePrefix=""))
        assert found.entry.dead_letter_strategy.topic == "DLQ.orders"
        assert "the broker drops them" in found.warnings[0].loss

    def test_consuming_the_shared_dead_letter_queue_loses_nothing_here(self) -> None:
        """There its poison is lost."""
        assert resolve({}, "ActiveMQ.DLQ").entry.dead_letter_strategy.topic == "DLQ.ActiveMQ.DLQ"

    def test_a_name_that_kafka_does_not_allow_is_told(self) -> None:
        """With the name it has here."""
        found = resolve(strategy(queuePrefix="dead/"))
        assert found.entry.dead_letter_strategy.topic == "dead_orders"
        assert "dead_orders" in found.warnings[0].loss

    def test_temporary_destinations_have_entries_of_their_own(self) -> None:
        """An entry for all queues is not about them."""
        section = {"policyEntries": [{"tempQueue": True, "deadLetterStrategy": {"discarding": {}}}]}
        assert resolve(section, "temp-queue:x").entry.dead_letter_strategy.kind is DeadLetterKind.DISCARDING
        assert resolve(section, "x").entry.dead_letter_strategy.kind is DeadLetterKind.SHARED

    def test_non_persistent_records_are_dropped_unless_wanted(self) -> None:
        """As there, unlike in the simple form."""
        assert not resolve({}).entry.dead_letter_strategy.accepts(persistent=False, expired=False)
        assert resolve(strategy(processNonPersistent=True)).entry.dead_letter_strategy.accepts(
            persistent=False, expired=False
        )

    def test_a_negative_expiration_is_none(self) -> None:
        """There it is stored and means the same."""
        assert resolve(strategy(expiration=-1)).entry.dead_letter_strategy.expiration == 0


def test_an_unstable_choice_is_told() -> None:
    """In whichever map it is made."""
    entries = [{"queue": "a.*"}, {"queue": "a.>"}]
    for section in (
        {"policyEntries": entries},
        {"redeliveryPolicyMap": {"redeliveryPolicyEntries": entries}},
        {"plugins": [{"redeliveryPlugin": {"redeliveryPolicyMap": {"redeliveryPolicyEntries": entries}}}]},
    ):
        assert any("from run to run" in warning.problem for warning in resolve(section, "a.b").warnings)
