"""Topics, their properties and groups' offsets: looked up, and completed. Nothing is ever deleted."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicMetadata,
)

from topology.changes import AlterConfig, Change, Changes, CommitFirst, CreateTopic, GrowTopic
from topology.facts import Bounds, ClusterFacts, TopicFacts
from transport.admin_calls import AdminCalls, refusal
from transport.admin_errors import AdminError, GroupActiveError, NotAuthorisedError
from transport.client_config import Value, admin_config
from transport.group_offsets import committed_offsets

TIMEOUT_S = 10.0
"""How long an answer is waited for."""

_TOPIC = ConfigResource.Type.TOPIC
_BROKER = ConfigResource.Type.BROKER
_PAUSE_S = 0.1
_MEMBERS_RUN = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)


def _nothing(_: Change) -> None:
    pass


class ClusterAdmin:
    """The cluster behind the ``kafka`` settings. Not thread-safe; opens no connection before its first question.

    Every method raises :class:`~transport.errors.BrokerUnavailableError` when no broker answers in
    ``timeout_s``, :class:`~transport.admin_errors.NotAuthorisedError` when the user may not, and
    :class:`~transport.admin_errors.AdminError` when the cluster refuses for another reason.
    """

    def __init__(self, kafka: Mapping[str, Value], *, timeout_s: float = TIMEOUT_S) -> None:
        self._kafka = kafka
        self._calls = AdminCalls(admin_config(kafka), timeout_s=timeout_s)

    @property
    def _client(self) -> AdminClient:
        return self._calls.client

    def topic_names(self) -> frozenset[str]:
        """All topics that the user may see."""
        return frozenset(self._calls.metadata().topics)

    def describe(self, names: Iterable[str], readers: Mapping[str, Sequence[str]]) -> ClusterFacts:
        """What there is of these topics.

        Args:
            names: the topics asked for; those that do not exist are missing in the answer.
            readers: topic -> the groups whose committed offsets in it are wanted.
        """
        metadata = self._calls.metadata()
        found = {name: metadata.topics[name] for name in sorted(set(names)) if name in metadata.topics}
        for name, topic in found.items():
            if topic.error is not None:
                raise refusal(f"describe topic {name}", topic.error)
        configs = self._configs(found)
        places = [(name, number) for name in readers if name in found for number in found[name].partitions]
        # In this order: a running group commits while we look, and must not seem to be outside its own log.
        starts = self._ends(places, OffsetSpec.earliest())
        committed = self._committed(found, readers)
        ends = self._ends(places, OffsetSpec.latest())
        topics = {
            name: TopicFacts(
                name=name,
                partitions=len(topic.partitions),
                replication_factor=min((len(each.replicas) for each in topic.partitions.values()), default=0),
                configs=configs[name],
                bounds={
                    number: Bounds(starts[name, number], ends[name, number])
                    for number in topic.partitions
                    if (name, number) in ends
                },
            )
            for name, topic in found.items()
        }
        return ClusterFacts(
            topics=topics,
            committed=committed,
            creates_topics=self._creates_topics(sorted(metadata.brokers)),
        )

    def apply(self, changes: Changes, done: Callable[[Change], None] = _nothing) -> None:
        """Make the changes, telling each one that is made; what is there already is left as it is.

        Raises:
            GroupActiveError: a group that needs first offsets has running members; nothing was changed.
        """
        self._refuse_active(sorted({first.group for first in changes.commit}))
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

    def _configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(_TOPIC, name) for name in names]
        if not resources:
            return {}
        answers = self._calls.each("read the properties of topics", lambda: self._client.describe_configs(resources))
        return {
            str(resource.name): {name: entry.value for name, entry in entries.items() if entry.value is not None}
            for resource, entries in answers.items()
        }

    def _creates_topics(self, brokers: Sequence[int]) -> bool:
        resource = ConfigResource(_BROKER, str(brokers[0]))
        try:
            answer = self._calls.each("read broker properties", lambda: self._client.describe_configs([resource]))
        except NotAuthorisedError:
            # Usual on managed clusters; it only sharpens a message.
            return False
        entry = answer[resource].get("auto.create.topics.enable")
        return entry is not None and entry.value == "true"

    def _ends(self, places: Sequence[tuple[str, int]], end: OffsetSpec) -> dict[tuple[str, int], int]:
        if not places:
            return {}
        wanted = {Place(name, number): end for name, number in places}
        answers = self._calls.each("read the ends of partitions", lambda: self._client.list_offsets(wanted))
        return {(place.topic, place.partition): answer.offset for place, answer in answers.items()}

    def _committed(
        self, found: Mapping[str, TopicMetadata], readers: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[tuple[str, int], int]]:
        wanted: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for name, groups in readers.items():
            if name in found:
                for group in groups:
                    wanted[group] += [(name, number) for number in found[name].partitions]
        return {group: self._offsets(group, places) for group, places in wanted.items()}

    def _offsets(self, group: str, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return committed_offsets(self._calls, self._kafka, group, places)

    def _refuse_active(self, groups: list[str]) -> None:
        if groups:
            request = "describe the consumer groups"
            answers = self._calls.each(request, lambda: self._client.describe_consumer_groups(groups))
            for group, answer in answers.items():
                if answer.members:
                    raise GroupActiveError(group, len(answer.members))

    def _create(self, change: CreateTopic) -> None:
        topic = change.topic
        new = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=dict(topic.configs),
        )
        try:
            self._calls.each(f"create topic {topic.name}", lambda: self._client.create_topics([new]))
        except AdminError as error:
            # Somebody else made it just now; whether it is as planned, the next check tells.
            if topic.name not in self.topic_names():
                raise error from None

    def _grow(self, change: GrowTopic) -> None:
        operation = f"give topic {change.topic} {change.partitions} partitions"
        new = NewPartitions(change.topic, change.partitions)
        self._calls.each(operation, lambda: self._client.create_partitions([new]))

    def _await_partitions(self, changes: Changes) -> None:
        """A new partition takes a moment until every broker knows it and it has a leader."""
        awaited = {change.topic.name: change.topic.partitions for change in changes.create}
        awaited |= {change.topic: change.partitions for change in changes.grow}
        deadline = time.monotonic() + self._calls.timeout_s
        pause = threading.Event()
        while awaited and time.monotonic() < deadline:
            topics = self._calls.metadata().topics
            awaited = {
                name: partitions
                for name, partitions in awaited.items()
                if name not in topics or sum(each.leader >= 0 for each in topics[name].partitions.values()) < partitions
            }
            if awaited:
                pause.wait(_PAUSE_S)
        if awaited:
            raise AdminError("wait for new partitions", f"{', '.join(awaited)} still lack a leader; apply again later")

    def _alter(self, topic: str, altered: Sequence[AlterConfig]) -> None:
        entries = [
            ConfigEntry(each.config, each.after, incremental_operation=AlterConfigOpType.SET) for each in altered
        ]
        resource = ConfigResource(_TOPIC, topic, incremental_configs=entries)
        self._calls.each(f"set properties of topic {topic}", lambda: self._client.incremental_alter_configs([resource]))

    def _commit(self, group: str, firsts: Sequence[CommitFirst]) -> list[CommitFirst]:
        """Those that were committed: a partition that has got an offset meanwhile keeps it."""
        operation = f"commit first offsets of group {group}"
        taken = self._offsets(group, [(first.topic, first.partition) for first in firsts])
        new = [first for first in firsts if (first.topic, first.partition) not in taken]
        if new:
            places = [Place(first.topic, first.partition, first.offset) for first in new]
            self._calls.repeated(operation, lambda: self._commit_once(group, places))
        return new

    def _commit_once(self, group: str, places: list[Place]) -> None:
        request = [ConsumerGroupTopicPartitions(group, places)]
        answer = self._client.alter_consumer_group_offsets(request)[group].result(self._calls.timeout_s)
        for place in answer.topic_partitions or []:
            if place.error is not None and place.error.code() in _MEMBERS_RUN:
                raise GroupActiveError(group, 1)
            if place.error is not None:
                raise KafkaException(place.error)
