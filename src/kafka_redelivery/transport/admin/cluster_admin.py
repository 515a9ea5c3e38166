"""Describes topics, their configurations and committed offsets, and applies changes to them. Deletes nothing."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from kafka_redelivery.topology.cluster.changes import AlterConfig, Change, Changes, CommitFirst, CreateTopic, GrowTopic
from kafka_redelivery.topology.cluster.facts import (
    MAX_METADATA,
    MAX_TRANSACTION,
    PROTOCOLS,
    Bounds,
    ClusterFacts,
    TopicFacts,
)
from kafka_redelivery.topology.cluster.kafka_rights import Operation
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.topology.wire.topic_mark import is_void, topic_mark
from kafka_redelivery.transport.admin.calls import DESCRIBE_CLUSTER, AdminCalls, values_of, with_leaders
from kafka_redelivery.transport.admin.errors import AdminError, NotAuthorisedError
from kafka_redelivery.transport.admin.partition_offsets import committed, list_offsets
from kafka_redelivery.transport.admin.topics import (
    allowed_operations,
    cluster_id,
    describe_topics,
    is_led,
    topic_config_entries,
)
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.opening import open_admin
from kafka_redelivery.transport.protocols import Partition

TIMEOUT_S = 10.0
"""Time limit of each request."""

_TOPIC = ConfigResource.Type.TOPIC
_LEADER_CHECK_INTERVAL_S = 0.1
_MEMBERS_S = 20.0
"""Running members notice a new topic or partition within about five seconds, and then rebalance."""

_MEMBERS_CHECK_INTERVAL_S = 0.5
_GROUP_ACTIVE = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)

_DESCRIBE = "describe the topics"
_OF_TOPIC = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
"""The source of a property that is set at the topic itself; the client returns its number."""

_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})
"""A topic was deleted after it was described, so all are described again."""


def _ignore(_: Change) -> None:
    pass


class ListedTopics(NamedTuple):
    """The topics of a cluster, as far as the user may see them."""

    partition_counts: Mapping[str, int]
    leaderless: frozenset[Partition]


class ClusterAdmin:
    """The cluster of the ``kafka`` settings. Not thread-safe; connects with the first request.

    Every method raises :class:`BrokerUnavailableError` when no broker answers in ``timeout_s``,
    :class:`NotAuthorisedError` when the user may not, and :class:`AdminError` when the cluster refuses for another
    reason. Without ``calls`` it has a client of its own.
    """

    def __init__(
        self, kafka: Mapping[str, ConfigValue], *, timeout_s: float = TIMEOUT_S, calls: AdminCalls | None = None
    ) -> None:
        self._kafka = kafka
        self._calls = calls or AdminCalls(admin_config(kafka), timeout_s=timeout_s)

    @property
    def _client(self) -> AdminClient:
        return self._calls.client

    def topic_names(self) -> frozenset[str]:
        """Return all topics that the user may see."""
        return frozenset(self._calls.metadata().topics)

    def partition_counts(self) -> Mapping[str, int]:
        """Return the number of partitions of every topic that the user may see."""
        return self.listed_topics().partition_counts

    def led_topics(self, wanted: Callable[[Mapping[str, int]], Iterable[str]]) -> ListedTopics:
        """Return all topics; for some seconds wait for leaders of those that ``wanted`` names, given all."""

        def lacking(found: ListedTopics) -> set[str]:
            return {each.topic for each in found.leaderless}.intersection(wanted(found.partition_counts))

        return with_leaders(self.listed_topics, lacking)

    def listed_topics(self) -> ListedTopics:
        """Return all topics that the user may see."""
        topics = {
            name: topic.partitions for name, topic in self._calls.metadata().topics.items() if topic.error is None
        }
        return ListedTopics(
            {name: len(partitions) for name, partitions in topics.items()},
            frozenset(
                Partition(name, each.id)
                for name, partitions in topics.items()
                for each in partitions.values()
                if each.leader < 0
            ),
        )

    def offers_consumer_protocol(self) -> bool | None:
        """Return whether the brokers know the requests of the consumer protocol (KIP-848); ``None`` if it is unknown.

        The client says only in its log which requests a broker knows. Without these it waits and reports no error.
        """
        logged = _Logged()
        client = open_admin({**admin_config(self._kafka), "debug": "feature", "log_level": 7}, logged.logger)
        limit_s = self._calls.timeout_s
        self._calls.repeated(DESCRIBE_CLUSTER, lambda: client.describe_cluster(request_timeout=limit_s).result(limit_s))
        client.poll(0)
        return knows_consumer_protocol(logged.lines)

    def allowed_operations(self, topics: Iterable[str]) -> dict[str, Collection[Operation]]:
        """Return what the user may do on each topic; those that do not exist, and what is unknown, are missing."""
        return allowed_operations(self._calls, topics)

    def describe(
        self, names: Iterable[str], readers: Mapping[str, Sequence[str]], *, skip_leaderless: bool = False
    ) -> ClusterFacts:
        """Describe topics and the committed offsets in them.

        Args:
            names: the topics; the result leaves out those that do not exist, also those that are deleted meanwhile.
            readers: topic -> the groups whose committed offsets to include.
            skip_leaderless: whether to leave out the offsets of a partition without a leader, instead of waiting for
                its leader and then failing.
        """
        wanted = frozenset(names)
        return self._calls.repeated(
            _DESCRIBE, lambda: self._described(wanted, readers, skip_leaderless=skip_leaderless)
        )

    def _described(
        self, names: Collection[str], readers: Mapping[str, Sequence[str]], *, skip_leaderless: bool
    ) -> ClusterFacts:
        found = self._topics(names)
        configs = self._configs(found)
        asked = _led_partitions_of if skip_leaderless else _partitions_of
        partitions = [each for name in readers if name in found for each in asked(found[name])]
        # In this order a group that commits in the meantime is never outside the bounds of its partitions.
        starts = self._list_offsets(partitions, OffsetSpec.earliest())
        cluster, broker = self._cluster()
        marks = {name: topic_mark(cluster, str(topic.topic_id)) for name, topic in found.items()}
        committed = self._committed(found, readers, marks)
        ends = self._list_offsets(partitions, OffsetSpec.latest())
        return ClusterFacts(
            topics={name: _facts(topic, starts, ends, configs[name], marks[name]) for name, topic in found.items()},
            committed=committed,
            creates_topics=broker.get("auto.create.topics.enable") == "true",
            max_metadata=int(broker.get(MAX_METADATA, METADATA_LIMIT)),
            max_transaction_ms=int(broker[MAX_TRANSACTION]) if MAX_TRANSACTION in broker else None,
            consumer_protocol="consumer" in broker[PROTOCOLS].split(",") if PROTOCOLS in broker else None,
        )

    def topic_facts(self, names: Iterable[str], detailed: Collection[str]) -> dict[str, TopicFacts]:
        """Describe topics in a few requests, which are for these topics alone.

        Args:
            names: the topics; the result leaves out those that do not exist, also those that are deleted meanwhile.
            detailed: those whose configurations, start and end offsets to include. A partition without a leader has
                none.
        """
        wanted = frozenset(names)
        return self._calls.repeated(_DESCRIBE, lambda: self._topic_facts(wanted, detailed))

    def _topic_facts(self, names: Collection[str], detailed: Collection[str]) -> dict[str, TopicFacts]:
        found = self._topics(names)
        near = {name: found[name] for name in detailed if name in found}
        configs = self._configs(near)
        partitions = [each for topic in near.values() for each in _led_partitions_of(topic)]
        starts = self._list_offsets(partitions, OffsetSpec.earliest())
        ends = self._list_offsets(partitions, OffsetSpec.latest())
        cluster = cluster_id(self._calls)
        return {
            name: _facts(topic, starts, ends, configs.get(name, {}), topic_mark(cluster, str(topic.topic_id)))
            for name, topic in found.items()
        }

    def _list_offsets(self, partitions: Collection[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        return list_offsets(self._calls, partitions, spec, passed_on=_GONE)

    def _topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        described = describe_topics(self._calls, names, operations=False)
        return {name: topic for name, topic in described.items() if not isinstance(topic, int)}

    def apply(self, changes: Changes, done: Callable[[Change], None] = _ignore) -> None:
        """Apply changes and call ``done`` with each one; what exists already stays as it is.

        Kafka lets only members commit the offsets of a group that has some. So they commit the first offsets of the
        partitions that they are assigned, and this method waits for it, for some seconds.
        """
        for create in changes.create:
            self._create(create)
            done(create)
        for grow in changes.grow:
            self._grow(grow)
            done(grow)
        self._await_partitions(changes)
        for topic in dict.fromkeys(alter.topic for alter in changes.alter):
            altered = [alter for alter in changes.alter if alter.topic == topic]
            self._alter(topic, altered)
            for alter in altered:
                done(alter)
        for group in dict.fromkeys(first.group for first in changes.commit):
            for first in self._commit(group, [first for first in changes.commit if first.group == group]):
                done(first)

    def _configs(self, names: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
        return topic_config_entries(self._calls, names, _GONE)

    def _cluster(self) -> tuple[str, dict[str, str]]:
        """Return the id of the cluster, and the configuration of a broker.

        The latter is empty if the user may not read it, as is usual on managed clusters.
        """
        cluster = self._calls.cluster()
        try:
            config = self._calls.broker_config(cluster)
        except NotAuthorisedError:
            config = {}
        return str(cluster.cluster_id or ""), config

    def _committed(
        self, found: Mapping[str, TopicDescription], readers: Mapping[str, Sequence[str]], marks: Mapping[str, str]
    ) -> dict[str, dict[tuple[str, int], int]]:
        wanted: dict[str, list[Partition]] = defaultdict(list)
        for name, groups in readers.items():
            if name in found:
                for group in groups:
                    wanted[group] += _partitions_of(found[name])
        return {group: self._offsets(group, partitions, marks=marks) for group, partitions in wanted.items()}

    def _offsets(
        self,
        group: str,
        partitions: Sequence[Partition],
        right: str = "Describe",
        marks: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[tuple[str, int], int]:
        """Return the committed offsets, but for those that were committed in older topics of these names."""
        found = committed(self._calls, self._kafka, group, partitions, right)
        return {
            partition: checkpoint.offset
            for partition, checkpoint in found.items()
            if not is_void(checkpoint.metadata, marks.get(partition.topic, ""))
        }

    def _create(self, change: CreateTopic) -> None:
        topic = change.topic
        new = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=dict(topic.configs),
        )
        try:
            self._calls.each(
                f"create topic {topic.name}",
                lambda: self._client.create_topics([new]),
                f"Create on topic {topic.name}",
            )
        except AdminError as error:
            # Another process has just created it; the next check reports differences from the plan.
            if topic.name not in self.topic_names():
                raise error from None

    def _grow(self, change: GrowTopic) -> None:
        operation = f"give topic {change.topic} {change.partitions} partitions"
        new = NewPartitions(change.topic, change.partitions)
        try:
            self._calls.each(operation, lambda: self._client.create_partitions([new]), f"Alter on topic {change.topic}")
        except AdminError as error:
            # As above: another process, or a first try whose answer was lost.
            found = self._topics([change.topic]).get(change.topic)
            if found is None or len(found.partitions) < change.partitions:
                raise error from None

    def _await_partitions(self, changes: Changes) -> None:
        """Wait until the new partitions have leaders: as long as more and more of them have, however many they are."""
        awaited = {change.topic.name: change.topic.partitions for change in changes.create}
        awaited |= {change.topic: change.partitions for change in changes.grow}
        led, deadline = 0, time.monotonic() + self._calls.timeout_s
        pause = threading.Event()
        while awaited and time.monotonic() < deadline:
            leaders = {name: len(_led_partitions_of(topic)) for name, topic in self._topics(awaited).items()}
            done = [name for name, partitions in awaited.items() if leaders.get(name, 0) >= partitions]
            if sum(leaders.values()) > led:
                deadline = time.monotonic() + self._calls.timeout_s
            awaited = {name: partitions for name, partitions in awaited.items() if name not in done}
            led = sum(leaders.get(name, 0) for name in awaited)
            if awaited:
                pause.wait(_LEADER_CHECK_INTERVAL_S)
        if awaited:
            raise AdminError("wait for new partitions", f"{', '.join(awaited)} still lack a leader; apply again later")

    def _alter(self, topic: str, altered: Sequence[AlterConfig]) -> None:
        entries = [
            ConfigEntry(each.config, each.after, incremental_operation=AlterConfigOpType.SET) for each in altered
        ]
        resource = ConfigResource(_TOPIC, topic, incremental_configs=entries)
        self._calls.each(
            f"configure topic {topic}",
            lambda: self._client.incremental_alter_configs([resource]),
            f"AlterConfigs on topic {topic}",
        )

    def _commit(self, group: str, firsts: Sequence[CommitFirst]) -> list[CommitFirst]:
        """Commit first offsets and return those committed: a partition that has an offset by now keeps it."""
        operation = f"commit first offsets of group {group}"
        taken = self._offsets(group, [Partition(first.topic, first.partition) for first in firsts], "Read")
        new = [first for first in firsts if (first.topic, first.partition) not in taken]
        offsets = [TopicPartition(first.topic, first.partition, first.offset) for first in new]
        topics = ", ".join(sorted({first.topic for first in new}))
        right = f"Read on group {group} and on topics {topics}"
        if new and not self._calls.repeated(operation, lambda: self._commit_once(group, offsets), right=right):
            return self._await_members(group, new)
        return new

    def _commit_once(self, group: str, offsets: list[TopicPartition]) -> bool:
        """Commit first offsets; return whether that was allowed, because the group has no members."""
        request = [ConsumerGroupTopicPartitions(group, offsets)]
        answer = self._client.alter_consumer_group_offsets(request)[group].result(self._calls.timeout_s)
        errors = [entry.error for entry in answer.topic_partitions or [] if entry.error is not None]
        if any(error.code() in _GROUP_ACTIVE for error in errors):
            return False
        if errors:
            raise KafkaException(errors[0])
        return True

    def _await_members(self, group: str, firsts: Sequence[CommitFirst]) -> list[CommitFirst]:
        """Wait until the members of a group have committed first offsets; return those that they have committed."""
        wanted = [Partition(first.topic, first.partition) for first in firsts]
        deadline = time.monotonic() + _MEMBERS_S
        pause = threading.Event()
        while len(found := self._offsets(group, wanted)) < len(wanted) and time.monotonic() < deadline:
            pause.wait(_MEMBERS_CHECK_INTERVAL_S)
        return [first for first in firsts if (first.topic, first.partition) in found]


class _Logged(logging.Handler):
    """Keeps what a client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.logger = logging.Logger(admin_log.name, logging.DEBUG)  # noqa: LOG001 - it ends with its client
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


_VERSIONS: Final = re.compile(r"ApiKey ConsumerGroupHeartbeat \(\d+\) Versions \d+\.\.(\d+)")
_HEARTBEAT: Final = 1
"""The version of that request that the client sends."""


def knows_consumer_protocol(lines: Iterable[str]) -> bool | None:
    """Return what the client's log says about each broker's requests; ``None`` if it says nothing."""
    text = "\n".join(lines)
    brokers, versions = text.count("Broker API support:"), [int(each) for each in _VERSIONS.findall(text)]
    return len(versions) == brokers and min(versions) >= _HEARTBEAT if brokers else None


def _partitions_of(topic: TopicDescription) -> list[Partition]:
    return [Partition(topic.name, each.id) for each in topic.partitions]


def _led_partitions_of(topic: TopicDescription) -> list[Partition]:
    return [Partition(topic.name, each.id) for each in topic.partitions if is_led(each)]


def _facts(
    topic: TopicDescription,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    configs: Mapping[str, ConfigEntry],
    mark: str,
) -> TopicFacts:
    return TopicFacts(
        name=topic.name,
        partitions=len(topic.partitions),
        leaderless=tuple(each.id for each in topic.partitions if not is_led(each)),
        replication_factor=min((len(each.replicas) for each in topic.partitions), default=0),
        configs=values_of(configs),
        own=frozenset(name for name, entry in configs.items() if entry.source in _OF_TOPIC),
        bounds={each.number: Bounds(starts[each], ends[each]) for each in _partitions_of(topic) if each in ends},
        mark=mark,
    )
