"""Handlers may not send to the topics of their own group."""

from typing import cast

import pytest

from kafka_redelivery.consumers.handlers.outputs import Destinations
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin.topics import TopicMetadataCache

_SETTINGS = load_settings(
    """
group: billing
kafka: {bootstrap.servers: 'localhost:9092'}
sources: [{topic: orders}]
handler: {callable: 'examples:handle'}
outputs: [{topic: invoices}]
"""
)


class _EveryTopic:
    """A cluster on which every topic exists and has three partitions."""

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """Return the same for each topic."""
        del topic, wanted
        return 3


@pytest.fixture
def destinations() -> Destinations:
    """Return the destinations of a group."""
    return Destinations(_SETTINGS, cast("TopicMetadataCache", _EveryTopic()))


def test_each_topic_of_the_group_is_refused(destinations: Destinations) -> None:
    """A record there would be taken for one of the group's own."""
    naming = _SETTINGS.naming()
    for topic in (
        naming.tier_topic(2000),
        naming.mixed_topic(),
        naming.ready_topic("orders"),
        naming.dead_letter_topic("DLQ.{topic}", "orders"),
        naming.journal_topic(),
        naming.control_topic(),
        naming.jobs_topic(),
        naming.actions_topic(),
        naming.parking_topic(),
    ):
        with pytest.raises(ValueError, match=r"a topic of group billing itself"):
            destinations.partitions(topic)


def test_any_other_topic_is_allowed(destinations: Destinations) -> None:
    """Also one that the configuration does not list, and the source of the group."""
    assert destinations.partitions("orders") == 3
    assert destinations.partitions("elsewhere") == 3
