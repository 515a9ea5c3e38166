"""What tells a topic from one that was created again under its name, and what may take records out of its middle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import ConfigResource, TopicDescription

from kafka_redelivery.topology.wire.topic_mark import topic_mark
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.admin.topic_rights import describe_topics
from kafka_redelivery.transport.client_config import ConfigValue, admin_config

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """One topic of a cluster."""

    id: str
    """Given by the cluster when the topic is created; all zero from brokers before Kafka 2.8."""

    partitions: int
    compacted: bool
    """Whether compaction may remove any record; false also where the user may not read the topic's configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """A cluster, and those of the asked topics that it shows."""

    cluster: str
    topics: Mapping[str, TopicIdentity]


def identities(
    kafka: Mapping[str, ConfigValue], names: Iterable[str], *, calls: AdminCalls | None = None
) -> Identities:
    """Describe topics; those that do not exist, or may not be described, are missing.

    Args:
        kafka: the client settings.
        names: the topics.
        calls: the client that asks; without it a new one.

    Raises:
        TransportError: Kafka does not answer, or refuses for another reason than rights on a topic.
    """
    calls = calls or AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
    cluster = str(calls.metadata().cluster_id)
    found = {
        name: described
        for name, described in describe_topics(calls, names).items()
        if isinstance(described, TopicDescription)
    }
    compacted = _compacted(calls, found)
    return Identities(
        cluster=cluster,
        topics={
            name: TopicIdentity(id=str(each.topic_id), partitions=len(each.partitions), compacted=name in compacted)
            for name, each in found.items()
        },
    )


def cluster_id(calls: AdminCalls) -> str:
    """Return the id of the cluster, without listing its topics.

    Raises:
        TransportError: Kafka does not answer.
    """
    limit_s = calls.timeout_s
    described = calls.repeated(
        "describe the cluster", lambda: calls.client.describe_cluster(request_timeout=limit_s).result(limit_s)
    )
    return str(described.cluster_id or "")


def topic_marks(calls: AdminCalls, names: Iterable[str]) -> dict[str, str]:
    """Return the mark of each topic that exists and may be described; empty if the brokers give no ids.

    Raises:
        TransportError: Kafka does not answer, or refuses for another reason than rights on a topic.
    """
    described = describe_topics(calls, names, operations=False)
    if not described:
        return {}
    cluster = cluster_id(calls)
    return {
        name: topic_mark(cluster, str(each.topic_id))
        for name, each in described.items()
        if isinstance(each, TopicDescription)
    }


def _compacted(calls: AdminCalls, names: Iterable[str]) -> frozenset[str]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    if not resources:
        return frozenset()
    try:
        answers = calls.each("read the configuration of topics", lambda: calls.client.describe_configs(resources))
    except NotAuthorisedError:
        return frozenset()
    return frozenset(
        str(resource.name)
        for resource, entries in answers.items()
        if "compact" in str(entries["cleanup.policy"].value or "")
    )
