"""What tells a topic from one that was created again under its name, and what may take records out of its middle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Uuid
from confluent_kafka.admin import ConfigResource, TopicDescription

from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.topic_mark import topic_mark
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.admin.topic_rights import describe_topics
from kafka_redelivery.transport.client_config import ConfigValue, admin_config

_TIMEOUT_S = 30.0
_NO_ID: Final = str(Uuid(0, 0))
"""What the client says of a broker before Kafka 2.8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """One topic of a cluster."""

    id: str
    """Given by the cluster when the topic is created; empty from brokers before Kafka 2.8, which give none."""

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
    cluster = cluster_id(calls)
    found = {
        name: described
        for name, described in describe_topics(calls, names).items()
        if isinstance(described, TopicDescription)
    }
    compacted = _compacted(calls, found)
    return Identities(
        cluster=cluster,
        topics={
            name: TopicIdentity(id=_id_of(each), partitions=len(each.partitions), compacted=name in compacted)
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


def topic_ids(calls: AdminCalls, names: Iterable[str], *, cluster: str | None = None) -> TopicIds:
    """Return the ids of topics; those that do not exist, may not be described or have none are missing.

    Args:
        calls: the client that asks.
        names: the topics.
        cluster: the id of the cluster, if it is known.

    Raises:
        TransportError: Kafka does not answer, or refuses for another reason than rights on a topic.
    """
    if cluster is None:
        cluster = cluster_id(calls)
    described = describe_topics(calls, names, operations=False)
    found = {name: _id_of(each) for name, each in described.items() if isinstance(each, TopicDescription)}
    return TopicIds(cluster=cluster, ids={name: each for name, each in found.items() if each})


def topic_marks(calls: AdminCalls, names: Iterable[str]) -> dict[str, str]:
    """Return the marks of topics; which are missing, and the errors, are those of :func:`topic_ids`."""
    wanted = list(names)
    found = topic_ids(calls, wanted) if wanted else TopicIds()
    return {name: topic_mark(found.cluster, each) for name, each in found.ids.items()}


def _id_of(described: TopicDescription) -> str:
    found = str(described.topic_id)
    return "" if found == _NO_ID else found


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
