"""A worker follows the settings of either dialect: deliveries, delays, and the topics of dead and expired messages."""

import pytest

from tests.scenarios.running import Group, exactly, number

_EXPIRED = [("JMSExpiration", b"1000")]


def _numbers(group: Group, topic: str) -> list[int]:
    return sorted(number(record) for record in group.cluster.read(topic))


def test_a_worker_with_address_settings(group: Group) -> None:
    """Two matches are merged: attempts from one, delays from the other; expired records go to a prefixed topic."""
    anything = {
        "match": "#",
        "max-delivery-attempts": 3,
        "redelivery-delay": 9000,
        "dead-letter-address": "never.used",
        "expiry-address": "never.used.either",
        "auto-create-expiry-resources": True,
    }
    ours = {
        "match": f"{group.name}.#",
        "redelivery-delay": 50,
        "redelivery-delay-multiplier": 2,
        "auto-create-dead-letter-resources": True,
        "dead-letter-queue-prefix": "gave-up.",
    }
    group.prepare(policyEntry={}, artemis={"address-settings": [anything, ours]})
    group.scheduler()
    group.worker()
    group.send([["raise"], ["reject"], ["ok"], ["raise", "ok"]])
    group.send([["ok"]], first=4, headers=_EXPIRED)
    group.settle()
    group.stop()

    assert group.deliveries.attempts() == {0: [1, 2, 3], 1: [1], 2: [1], 3: [1, 2]}
    assert group.outputs() == exactly([2, 3])
    assert _numbers(group, f"gave-up.{group.source}") == [0, 1]
    assert _numbers(group, f"EXP.{group.source}") == [4]
    topics = group.cluster.topics()
    assert {group.tier("50ms"), group.tier("100ms")} <= topics
    assert not topics & {"never.used", "never.used.either", group.dead_letters}


@pytest.mark.parametrize("discards", [False, True], ids=["individual", "discardingDLQBrokerPlugin"])
def test_a_worker_with_policy_maps(group: Group, *, discards: bool) -> None:
    """The client's map sets the deliveries, the broker's entries the topic, unless a discarding plugin drops all."""
    policies = [
        {"queue": f"{group.name}.*", "maximumRedeliveries": 1, "initialRedeliveryDelay": 50},
        {"queue": ">", "maximumRedeliveries": 0},
    ]
    entry = {
        "queue": f"{group.name}.>",
        "deadLetterStrategy": {"individualDeadLetterStrategy": {"queuePrefix": "lost.", "queueSuffix": ".found"}},
    }
    activemq: dict[str, object] = {
        "redeliveryPolicyMap": {"redeliveryPolicyEntries": policies},
        "policyEntries": [entry],
    }
    if discards:
        activemq["plugins"] = [{"discardingDLQBrokerPlugin": {"dropOnly": f"{group.name}.*"}}]
    group.prepare(policyEntry={}, activemq=activemq)
    group.scheduler()
    group.worker()
    group.send([["raise"], ["ok"]])
    group.send([["ok"]], first=2, headers=_EXPIRED)
    group.settle()
    group.stop()

    assert group.deliveries.attempts() == {0: [1, 2], 1: [1]}
    assert group.outputs() == exactly([1])
    dead_letters = f"lost.{group.source}.found"
    assert dead_letters in group.cluster.topics() or discards
    assert (_numbers(group, dead_letters) if dead_letters in group.cluster.topics() else []) == (
        [] if discards else [0, 2]
    )
