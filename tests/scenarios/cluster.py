"""The Kafka cluster as seen from outside the product: all reads and writes use bare Kafka clients."""

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.topology.wire.topic_mark import split_mark
from kafka_redelivery.transport.kafka_errors import is_transient
from tests.scenarios.waiting import LONG_S, until

_K = TypeVar("_K")
_V = TypeVar("_V")

Partition = tuple[str, int]
Pairs = Sequence[tuple[str, bytes | None]]

Config = dict[str, str | int | float | bool]

_QUIET: Config = {"log_level": 0}
_ANSWER_S = 45.0
_BYSTANDER = "bystander"
"""The group of readers that commit nothing."""

_NO_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A record to write."""

    value: bytes | None
    key: bytes | None = None
    headers: Pairs = ()
    partition: int | None = None
    timestamp_ms: int = 0
    """Epoch milliseconds; 0 = now."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    def header(self, name: str) -> str | None:
        """The text of a header; of a name given twice, the last."""
        value = dict(self.headers).get(name)
        return None if value is None else value.decode()


def _answers(futures: Mapping[_K, Future[_V]], none: Container[int]) -> dict[_K, _V]:
    found = {}
    for each, answer in futures.items():
        try:
            found[each] = answer.result(_ANSWER_S)
        except KafkaException as exception:
            if exception.args[0].code() not in none:
                raise
    return found


class _OfThread(threading.local):
    """The consumers of a thread, by group: to make one takes longer than to ask it, and it is kept for the next look.

    A wait of another thread would close the one that this one reads with.
    """

    def __init__(self) -> None:
        self.consumers: dict[str, Consumer] = {}


class Cluster:
    """Access to the brokers from outside the product; ``producer`` has settings of the client that writes records."""

    def __init__(self, servers: str, producer: Config | None = None) -> None:
        self.servers = servers
        self._settings = producer or {}
        self._client: Config = {"bootstrap.servers": servers, **_QUIET}
        self._admin = AdminClient(self._client)
        self._producer = self._new_producer()
        self._own = _OfThread()

    def _new_producer(self) -> Producer:
        return Producer({**self._client, "linger.ms": 5, "message.max.bytes": 100_000_000, **self._settings})

    # Topics.

    def create(self, *topics: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create topics with the default replication and wait until each partition has a leader."""
        new = [NewTopic(topic, partitions, config=dict(config or {})) for topic in topics]
        for answer in self._admin.create_topics(new).values():
            answer.result(_ANSWER_S)
        until(lambda: all(self.partitions(topic) == partitions for topic in topics), f"{topics} exist")

    def delete(self, *topics: str) -> None:
        """Delete topics and wait until the broker no longer lists them."""
        for answer in self._admin.delete_topics(list(topics)).values():
            answer.result(_ANSWER_S)
        until(lambda: self.topics().isdisjoint(topics), f"{topics} are deleted")

    def grow(self, topic: str, partitions: int) -> None:
        """Increase the number of partitions of a topic."""
        for answer in self._admin.create_partitions([NewPartitions(topic, partitions)]).values():
            answer.result(_ANSWER_S)
        until(lambda: self.partitions(topic) == partitions, f"{topic} has {partitions} partitions")
        self._producer = self._new_producer()  # the former one would learn of them some minutes later

    def alter(self, topic: str, **properties: str) -> None:
        """Set properties of a topic, and wait until the broker has them; ``_`` stands for ``.`` in their names."""
        wanted = {name.replace("_", "."): value for name, value in properties.items()}
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(_ANSWER_S)
        until(lambda: wanted.items() <= self._properties(topic).items(), f"{topic} has {wanted}")

    def _properties(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (answer,) = self._admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in answer.result(_ANSWER_S).items()}

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        return set(self._admin.list_topics(timeout=_ANSWER_S).topics)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic that have a leader; 0 if the topic does not exist."""
        return len(self._partitions(topic))

    def _partitions(self, *topics: str) -> list[Partition]:
        """Return the partitions that have a leader. It does not list the thousand topics of other tests."""
        if not topics:
            return []
        wanted = TopicCollection(list(topics))
        described = self._asked(lambda admin: admin.describe_topics(wanted), none=_NO_TOPIC)
        led = {topic: sum(each.leader is not None for each in found.partitions) for topic, found in described.items()}
        return [(topic, number) for topic, count in led.items() for number in range(count)]

    def _asked(self, ask: Callable[[AdminClient], Mapping[_K, Future[_V]]], none: Container[int] = ()) -> dict[_K, _V]:
        """Return what the brokers answer about each, without those whose answer is an error in ``none``.

        A client may go on asking a node that was away, or that leads a partition no more. Another one asks once again.
        """
        try:
            return _answers(ask(self._admin), none)
        except (KafkaException, TimeoutError):
            self._admin = AdminClient(self._client)
        return _answers(ask(self._admin), none)

    def ends(self, *topics: str) -> dict[Partition, int]:
        """Return the log end offset of each partition, transaction markers included."""
        return self._offsets(OffsetSpec.latest(), topics)

    def starts(self, *topics: str) -> dict[Partition, int]:
        """Return the log start offset of each partition."""
        return self._offsets(OffsetSpec.earliest(), topics)

    def _offsets(
        self, spec: OffsetSpec, topics: Sequence[str], isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[Partition, int]:
        wanted = {TopicPartition(*partition): spec for partition in self._partitions(*topics)}
        if not wanted:
            return {}
        answers = self._asked(lambda admin: admin.list_offsets(wanted, isolation_level=isolation))
        return {(partition.topic, partition.partition): found.offset for partition, found in answers.items()}

    # Records.

    def produce(self, topic: str, records: Iterable[Sent]) -> None:
        """Write records and wait until the broker has acknowledged all of them."""
        assert self.offer(topic, records) == []

    def offer(self, topic: str, records: Iterable[Sent]) -> list[int]:
        """Write records and wait for the answers; return the indexes of those that were not acknowledged."""
        return _send(self._producer, topic, records)

    def abort(self, topic: str, records: Iterable[Sent]) -> None:
        """Write records in a transaction that is aborted, so that no read-committed reader sees them."""
        self.begin(topic, records).abort_transaction(_ANSWER_S)

    def transact(self, topic: str, records: Iterable[Sent]) -> None:
        """Write records in a transaction, and wait until its markers take up the offsets behind them."""
        self.begin(topic, records).commit_transaction(_ANSWER_S)
        self.wait_for_markers(topic)

    def wait_for_markers(self, *topics: str, within_s: float = LONG_S) -> None:
        """Wait until no transaction is open and all markers are written, so that all committed records can be read."""
        until(
            lambda: self._offsets(OffsetSpec.latest(), topics, IsolationLevel.READ_COMMITTED) == self.ends(*topics),
            f"{topics} have their markers",
            within_s=within_s,
        )

    def begin(self, topic: str, records: Iterable[Sent]) -> Producer:
        """Write records in a transaction, and leave it open."""
        producer = Producer({**self._client, "transactional.id": f"{topic}.upstream"})
        producer.init_transactions(_ANSWER_S)
        producer.begin_transaction()
        _send(producer, topic, records)
        return producer

    def read(self, *topics: str) -> list[Seen]:
        """Read all records of topics that a read-committed reader sees now."""
        return self._read(dict.fromkeys(self._partitions(*topics), 0))

    def read_written(self, *topics: str) -> list[Seen]:
        """Read all records of topics whose last writer has committed its transactions.

        Kafka answers a commit before it writes the markers that let a read-committed reader see the records.
        """
        self.wait_for_markers(*topics)
        return self.read(*topics)

    @contextmanager
    def follow(self, *topics: str) -> Iterator["Tail"]:
        """Open a read-committed reader that stays open and reads from the start of each partition."""
        consumer = self._consumer(_BYSTANDER)
        try:
            yield Tail(consumer, dict.fromkeys(self._partitions(*topics), 0))
        finally:
            consumer.close()

    def _read(self, positions: Mapping[Partition, int]) -> list[Seen]:
        """Read all records from these positions on that a read-committed reader sees now."""
        consumer = self._kept(_BYSTANDER)
        tail = Tail(consumer, positions)
        try:
            until(tail.at_end, f"{sorted(positions)} are read to their end")
        except BaseException:
            self._own.consumers.pop(_BYSTANDER).close()
            raise
        consumer.unassign()
        return tail.records

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition below an offset."""
        for answer in self._admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            answer.result(_ANSWER_S)

    # Groups.

    def committed(self, group: str, *topics: str) -> dict[Partition, tuple[int, str]]:
        """Return committed offset and metadata, without the mark of the topic, of each partition that has one."""
        partitions = [TopicPartition(*partition) for partition in self._partitions(*topics)]
        answers = self._kept(group).committed(partitions, _ANSWER_S) if partitions else []
        return {
            (answer.topic, answer.partition): (answer.offset, split_mark(answer.metadata or "")[1])
            for answer in answers
            if answer.offset >= 0
        }

    def commit(self, group: str, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        """Set a group's committed offset from outside, as a tool would."""
        request = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset, metadata)])]

        def committed() -> bool:
            for answer in self._admin.alter_consumer_group_offsets(request).values():
                for answered in answer.result(_ANSWER_S).topic_partitions or []:
                    if answered.error is not None:
                        assert is_transient(answered.error), answered.error
                        return False
            return True

        until(committed, f"an offset of {group} is committed")

    def delete_group(self, group: str) -> None:
        """Delete a group with all its offsets; it must have no members."""
        for answer in self._admin.delete_consumer_groups([group]).values():
            answer.result(_ANSWER_S)

    def members(self, group: str) -> dict[str, set[Partition]]:
        """Return the partitions assigned to each member of a group, by instance name or member id."""
        answer = self._admin.describe_consumer_groups([group])[group].result(_ANSWER_S)
        return {
            member.group_instance_id or member.member_id: {
                (partition.topic, partition.partition) for partition in member.assignment.topic_partitions
            }
            for member in answer.members
        }

    def unfinished(self, group: str, *topics: str) -> list[Seen]:
        """Return the records a group has not finished: from its offset on, without those its metadata names."""
        committed = self.committed(group, *topics)
        progress = {partition: Progress.restore(*commit) for partition, commit in committed.items()}
        positions = {partition: done.next_offset for partition, done in progress.items()}
        behind = {
            partition: position
            for partition, end in self.ends(*topics).items()
            if (position := positions.get(partition, 0)) < end
        }
        left = []
        for record in self._read(behind) if behind else ():
            done = progress.get((record.topic, record.partition))
            if done is None or done.track(record.offset):
                left.append(record)
        return left

    def _kept(self, group: str) -> Consumer:
        if group not in self._own.consumers:
            for other in self._own.consumers.keys() - {_BYSTANDER}:
                self._own.consumers.pop(other).close()
            self._own.consumers[group] = self._consumer(group)
        return self._own.consumers[group]

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                **self._client,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
            }
        )


def _send(producer: Producer, topic: str, records: Iterable[Sent]) -> list[int]:
    """Return the indexes of the records that were not acknowledged."""
    refused: list[int] = []

    def note(index: int, error: KafkaError | None, _: object) -> None:
        if error is not None:
            refused.append(index)

    for index, record in enumerate(records):
        producer.produce(
            topic,
            record.value,
            record.key,
            -1 if record.partition is None else record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
            on_delivery=partial(note, index),
        )
        producer.poll(0)
    assert producer.flush(_ANSWER_S) == 0
    return refused


class Tail:
    """A reader of some topics that keeps every record it has read."""

    def __init__(self, consumer: Consumer, positions: Mapping[Partition, int]) -> None:
        # Offset 0 instead of "earliest": looking up the log start offset takes the client half a second.
        consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])
        self._consumer = consumer
        self._partitions = set(positions)
        self._ended: set[Partition] = set()
        self.records: list[Seen] = []

    def at_end(self) -> bool:
        """Read on; return whether the end of every partition has been reached at least once."""
        self.read_on()
        return self._ended >= self._partitions

    def count(self) -> int:
        """Read on; return the number of records read so far."""
        self.read_on()
        return len(self.records)

    def reach(self, number: int, *, within_s: float = LONG_S) -> None:
        """Wait until ``number`` records have been read."""
        until(lambda: self.count() >= number, f"{number} records in {sorted(self._partitions)}", within_s=within_s)

    def read_on(self) -> None:
        """Read the records that are available."""
        for message in self._consumer.consume(10_000, 0.02):
            error = message.error()
            if error is None:
                self.records.append(_seen(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add((str(message.topic()), message.partition() or 0))
            elif not error.retriable():
                raise AssertionError(f"cannot read: {error}")


def _seen(message: Message) -> Seen:
    return Seen(
        topic=str(message.topic()),
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=message.key(),
        value=message.value(),
        headers=tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
        timestamp_ms=message.timestamp()[1],
    )
