"""What a cluster says about the dead letters of a share group (KIP-1191, Kafka 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka.admin import ConfigResource

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.topics import topic_configs
from kafka_redelivery.transport.client_config import ConfigValue, admin_config

_TIMEOUT_S = 30.0


class ShareGroupConfigs(NamedTuple):
    """The configurations that decide whether a record that a share group gives up becomes a dead letter."""

    group: Mapping[str, str]
    topics: Mapping[str, Mapping[str, str]]
    """Of all topics that were asked for, without those that do not exist or may not be described."""

    broker: Mapping[str, str]


def share_group_configs(kafka: Mapping[str, ConfigValue], group: str, topic: str, setting: str) -> ShareGroupConfigs:
    """Read the configuration of a share group, of two topics and of a broker.

    Args:
        kafka: the client settings.
        group: the share group.
        topic: a topic.
        setting: the setting of the group that names the other topic.

    Raises:
        TransportError: the cluster does not answer, or refuses.
    """
    calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
    of_group = calls.config(ConfigResource(ConfigResource.Type.GROUP, group), f"DescribeConfigs on group {group}")
    broker = calls.broker_config(calls.cluster())
    wanted = {topic, of_group.get(setting, "")} & calls.metadata().topics.keys()
    return ShareGroupConfigs(of_group, topic_configs(calls, wanted), broker)
