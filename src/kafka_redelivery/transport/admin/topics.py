"""Topics as the brokers describe them: which exist, their ids and configurations, and what a user may do on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartitionInfo, Uuid
from confluent_kafka.admin import AclOperation, ConfigEntry, ConfigResource, TopicDescription

from kafka_redelivery.serdes.errors import LookUpWaits, may_wait
from kafka_redelivery.topology.cluster.kafka_rights import Operation
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.topic_mark import topic_mark
from kafka_redelivery.transport.admin.calls import AdminCalls, answers_of, values_of
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

ABSENT = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}
)
"""Error codes of a topic that does not exist or cannot. Kafka also says so that the user may not describe it."""

_OPERATIONS = {
    AclOperation.CREATE: Operation.CREATE,
    AclOperation.READ: Operation.READ,
    AclOperation.WRITE: Operation.WRITE,
    AclOperation.DELETE: Operation.DELETE,
    AclOperation.ALTER: Operation.ALTER,
    AclOperation.ALTER_CONFIGS: Operation.ALTER_CONFIGS,
    AclOperation.DESCRIBE: Operation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
}


def describe_topics(
    calls: AdminCalls, topics: Iterable[str], *, operations: bool = True
) -> dict[str, TopicDescription | int]:
    """Return the description of each topic, with what the user may do there if ``operations`` is true.

    For a topic that does not exist or cannot, or that the user may not even describe, the error code that says so.
    Kafka reports the last also for a topic that does not exist.

    Raises:
        TransportError: the cluster does not answer, or refuses for another reason.
    """
    wanted = sorted(set(topics))
    if not wanted:
        return {}

    def ask() -> dict[str, TopicDescription | int]:
        described = calls.client.describe_topics(
            TopicCollection(wanted), include_authorized_operations=operations, request_timeout=calls.timeout_s
        )
        found: dict[str, TopicDescription | int] = {}
        for topic, answer in described.items():
            try:
                found[topic] = calls.answer(answer, 2 * calls.timeout_s)
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                if error.code() not in ABSENT:
                    raise
                found[topic] = int(error.code())
        return found

    return calls.repeated("describe topics", ask)


def is_led(partition: TopicPartitionInfo) -> bool:
    """Whether a partition has a leader that runs."""
    return partition.leader is not None and partition.leader.id >= 0


def no_leader(partitions: Collection[Partition], what_lacks: str) -> str:
    """Return that partitions have no leader, what the answer lacks for it and what to do; empty without partitions."""
    if not partitions:
        return ""
    lead = f"{', '.join(map(str, sorted(partitions)))} {'has' if len(partitions) == 1 else 'have'} no leader"
    return f"{lead} and cannot be read: {what_lacks}; start a broker that has a replica in sync"


def allowed_operations(calls: AdminCalls, topics: Iterable[str]) -> dict[str, Collection[Operation]]:
    """Return what the user may do on each topic; a topic is missing if it does not exist, or it is not reported.

    Raises:
        TransportError: as :func:`describe_topics`.
    """
    found: dict[str, Collection[Operation]] = {}
    for topic, described in describe_topics(calls, topics).items():
        if described == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            found[topic] = ()
        elif isinstance(described, TopicDescription) and described.authorized_operations is not None:
            found[topic] = {_OPERATIONS[each] for each in described.authorized_operations if each in _OPERATIONS}
    return found


_METADATA_TIMEOUT_S = 10.0
_MIN_AGE_S = 5.0
"""How long an answer, or the lack of one, holds before a missing topic is asked for again."""


class TopicMetadataCache:
    """Topics and their numbers of partitions. Thread-safe; asks the cluster only for a topic that it does not know.

    Producing cannot find out which topics exist: it creates the topic, or waits half a minute and fails.
    """

    def __init__(self, kafka: Mapping[str, ConfigValue]) -> None:
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_METADATA_TIMEOUT_S)
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}
        """When Kafka last answered, or failed to, for a topic."""

        self._problems: dict[str, TransportError] = {}
        """Why Kafka has said nothing of a topic. Such a topic does not count as missing."""

    def ask_again(self, topic: str) -> None:
        """Ask the cluster again before this topic counts as one that exists."""
        with self._lock:
            self._counts.pop(topic, None)

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """See :class:`TopicMetadata`.

        Raises:
            TransportError: the cluster does not answer, or the user may not describe the topic.
            LookUpWaits: it would have to be asked, where a look-up may not wait.
        """
        count = self._counts.get(topic)
        if count is not None and wanted < count:
            return count
        if not self._has_asked(topic):
            if not may_wait.get():
                raise LookUpWaits("Kafka", f"topic {topic}", lambda: self.partitions(topic, wanted))
            with self._lock:
                if not self._has_asked(topic):
                    self._ask(topic)
        if (problem := self._problems.get(topic)) is not None:
            raise problem.with_traceback(None)  # each raise would add to it
        return self._counts.get(topic)

    def _has_asked(self, topic: str) -> bool:
        return time.monotonic() - self._asked_s.get(topic, -_MIN_AGE_S) < _MIN_AGE_S

    def _ask(self, topic: str) -> None:
        now = time.monotonic()
        self._asked_s = {each: at_s for each, at_s in self._asked_s.items() if now - at_s < _MIN_AGE_S}
        self._problems = {each: problem for each, problem in self._problems.items() if each in self._asked_s}
        try:
            described = describe_topics(self._calls, [topic], operations=False)[topic]
        except TransportError as error:
            self._problems[topic] = error
        else:
            self._counts.pop(topic, None)
            if described == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                self._problems[topic] = NotAuthorisedError(
                    f"describe topic {topic}",
                    "it does not exist, or this user may not describe it; create it, or grant the right Describe on it "
                    "(`redelivery topology acls` prints the command if it is listed under 'outputs')",
                )
            elif not isinstance(described, int):
                self._counts[topic] = len(described.partitions)
        self._asked_s[topic] = time.monotonic()


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

    leaderless: frozenset[int] = frozenset()
    """The partitions that have no leader, so that nothing of them can be read."""


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
            name: TopicIdentity(
                id=_id_of(each),
                partitions=len(each.partitions),
                compacted=name in compacted,
                leaderless=frozenset(partition.id for partition in each.partitions if not is_led(partition)),
            )
            for name, each in found.items()
        },
    )


def cluster_id(calls: AdminCalls) -> str:
    """Return the id of the cluster, without listing its topics.

    Raises:
        TransportError: Kafka does not answer.
    """
    return str(calls.cluster().cluster_id or "")


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
    try:
        configs = topic_configs(calls, names)
    except NotAuthorisedError:
        return frozenset()
    return frozenset(name for name, config in configs.items() if "compact" in config.get("cleanup.policy", ""))


def topic_configs(calls: AdminCalls, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the configurations of topics. Errors are those of :func:`topic_config_entries`."""
    return {name: values_of(entries) for name, entries in topic_config_entries(calls, names).items()}


def topic_config_entries(
    calls: AdminCalls, names: Iterable[str], passed_on: Collection[int] = ()
) -> dict[str, dict[str, ConfigEntry]]:
    """Return the configurations of topics with their sources. ``passed_on`` is that of :meth:`AdminCalls.repeated`.

    Raises:
        NotAuthorisedError: it names all topics whose configuration the user may not read, and no other.
        TransportError: the cluster does not answer, or refuses.
    """
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(set(names))]
    if not resources:
        return {}
    operation = "read the configuration of topics"

    def ask() -> dict[ConfigResource, dict[str, ConfigEntry]]:
        answers, errors = answers_of(calls.client.describe_configs(resources), calls.timeout_s)
        denied = {
            str(resource.name): error
            for resource, error in errors.items()
            if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        }
        for error in denied.values():
            right = f"{Operation.DESCRIBE_CONFIGS} on topic {', '.join(sorted(denied))}"
            raise NotAuthorisedError(operation, error.str(), right, unreadable=sorted(denied))
        for error in errors.values():
            raise KafkaException(error)
        return answers

    answers = calls.repeated(operation, ask, passed_on=passed_on)
    return {str(resource.name): entries for resource, entries in answers.items()}
