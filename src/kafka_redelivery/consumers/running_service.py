"""A service that runs while a test does: a worker and a scheduler on the embedded broker, and what came of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kafka_redelivery.consumers.app import App
from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.embedding import Running
from kafka_redelivery.consumers.operations.status import TopicBacklog, status
from kafka_redelivery.consumers.operations.waiting import Positions, partitions_of, read_unfinished
from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.consumers.testkit import as_written
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.serdes.errors import DecodeError
from kafka_redelivery.serdes.framing import KEY_HEADER, VALUE_HEADER, decoded, header_in
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.rules.clients import OAUTH_CB
from kafka_redelivery.topology.config.settings import CodecSection, Settings
from kafka_redelivery.topology.wire.headers import (
    DELIVERY_COUNT,
    FAILURE_CAUSE,
    ORIG_MESSAGE_ID,
    HeaderList,
    Headers,
    read_address,
    read_failure_cause,
    users_own,
)
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import CommittedOffsets, PartitionOffsets
from kafka_redelivery.transport.admin.preflight import make_topics
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.clients.message_headers import readable_headers
from kafka_redelivery.transport.protocols import Message, ProducerRecord

PARTITIONS: Final = 3
"""Of each source and output that a test's broker gets."""

_LOOK_S: Final = 0.1
_READ_AT_MOST: Final = 1_000
_SHOWN_S: Final = 10.0
"""How long the markers of a committed transaction may take."""

_OF_ANOTHER_CLUSTER: Final = ("sasl.", "security.", "ssl.", "enable.ssl.", OAUTH_CB)


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """A record that a service has written."""

    topic: str
    partition: int
    offset: int
    key: Any
    """The key, decoded by the codec that the configuration has for the topic; bytes without one."""

    value: Any
    """As the key."""

    headers: Mapping[str, bytes | None]
    """The headers by name, without those of this project."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class DeadRecord(WrittenRecord):
    """A dead letter. Key and value are decoded by the codec of its source, or bytes if they cannot be decoded."""

    message_id: str
    """``topic-partition@offset`` of the source record."""

    deliveries: int
    """How often it was delivered."""

    reason: str
    """Such as ``rejected``, ``redeliveries_exceeded``, ``undecodable``."""

    exception: str
    message: str
    frames: tuple[str, ...] = ()
    """The last frames of your code, ``module.function:line``, the innermost last."""


def on_broker(settings: Settings, kafka: EmbeddedKafka) -> Settings:
    """Return the settings for the embedded broker: its address and one replica, no login, name or port."""
    clients = {name: value for name, value in settings.kafka.items() if not _of_another_cluster(name)}
    update = {
        "kafka": clients | {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0},
        "instance": None,
        "metrics": settings.metrics.model_copy(update={"port": None}),
        "topics": settings.topics.model_copy(update={"replication_factor": None}),
    }
    return settings.model_copy(update=update)


def _of_another_cluster(name: str) -> bool:
    for client in ("producer.", "consumer.", "admin."):
        name = name.removeprefix(client)
    return name.startswith(_OF_ANOTHER_CLUSTER) or name == "bootstrap.servers"


def topics_of(settings: Settings, existing: Iterable[str]) -> set[str]:
    """Return all topics that belong to a service: its sources, its outputs, and those of its group."""
    naming, found, names = settings.naming(), set(_users(settings)), list(existing)
    return found.union(
        naming.internal_topics(),
        naming.tiers_among(names),
        naming.ready_topics_among(names),
        sweep_plan(settings).topics,
    )


def _users(settings: Settings) -> Mapping[str, CodecSection]:
    """Return what the configuration says of each source and output."""
    sources: dict[str, CodecSection] = {each.topic: each for each in settings.sources}
    return sources | {each.topic: each for each in settings.outputs}


def make_anew(settings: Settings, kafka: EmbeddedKafka, made: set[str]) -> None:
    """Make the topics of a service on the embedded broker; delete those that are left from an earlier test before.

    Args:
        settings: the configuration, with the address of the broker.
        kafka: the broker.
        made: the topics that belong to the running test, which stay; gets those of this service.
    """
    own = topics_of(settings, ClusterAdmin(settings.kafka).topic_names())
    kafka.delete_topics(own - made)
    kafka.create_topics(dict.fromkeys(_users(settings), PARTITIONS))
    make_topics(settings, wall_clock_ms())
    made |= own


@contextmanager
def running_service(
    app: App, kafka: EmbeddedKafka, made: set[str], overrides: Sequence[str] = ()
) -> Iterator[RunningService]:
    """Run an App on the embedded broker while the block runs, with its scheduler.

    Args:
        app: what runs.
        kafka: the broker.
        made: as of :func:`make_anew`.
        overrides: ``name=value`` of settings.

    Raises:
        ConfigurationError, HandlerLoadError, SerdeError, TransportError: as :meth:`App.running`.
    """
    definition = app.definition(overrides)
    settings = on_broker(definition.settings, kafka)
    make_anew(settings, kafka, made)
    with (
        Running(lambda: replace(definition, settings=settings), scheduler=True) as running,
        closing(RunningService(settings, definition.base, kafka, running)) as service,
    ):
        yield service


class RunningService:
    """What a test does with a service that runs: produce, wait until all is settled, read what came of it.

    Not thread-safe.
    """

    def __init__(self, settings: Settings, base: Path, kafka: EmbeddedKafka, running: Running) -> None:
        """Open clients.

        Args:
            settings: the configuration, with the address of the broker.
            base: the folder in which paths of schemas start.
            kafka: the broker.
            running: the worker and the scheduler.
        """
        self.settings = settings
        self.running = running
        """The worker and the scheduler: their probes and metrics, and what has ended them."""

        self._kafka = kafka
        self._codecs = {topic: codecs(section, base) for topic, section in _users(settings).items()}
        self._offsets = PartitionOffsets(settings.kafka)
        self._admin = ClusterAdmin(settings.kafka, calls=self._offsets.calls)
        with ExitStack() as opened:
            self._committed = {
                group: opened.enter_context(closing(CommittedOffsets(self._offsets.calls, settings.kafka, group)))
                for group in (settings.group, scheduler_group(settings.group))
            }
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Release the clients."""
        self._opened.close()

    def produce(
        self,
        topic: str,
        value: Any,  # noqa: ANN401 - whatever the codec encodes
        *,
        key: Any = None,  # noqa: ANN401 - as the value
        headers: Mapping[str, bytes | None] | Headers = (),
        partition: int | None = None,
    ) -> None:
        """Write a record, and return when the broker has confirmed it.

        Args:
            topic: a source of the service, or any other topic.
            value: encoded with the codec that the configuration has for the topic, unless it is bytes.
            key: as the value.
            headers: names and values in order, or a mapping.
            partition: number of the partition; ``None``: that of the key, as Java clients choose it.

        Raises:
            EncodeError: the codec cannot encode the key or the value.
            TransportError: the broker refuses the record, or does not answer.
        """
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        written = as_written(self._codecs_of(topic), key, value, pairs)
        self._kafka.produce([ProducerRecord(topic, partition, *written)])

    def settle(self, within_s: float = 30.0) -> None:
        """Wait until each record is acknowledged, dead-lettered or discarded, also those that wait for a redelivery.

        Raises:
            TimeoutError: some are not after ``within_s`` seconds; it says which, and what keeps them waiting.
            HaltedError, TransportError: what has ended the worker or the scheduler.
        """
        deadline_s = monotonic_s() + within_s
        while (unfinished := self._unfinished()) is None or unfinished:
            if self.running.failed is not None:
                raise self.running.failed
            if monotonic_s() > deadline_s:
                raise TimeoutError(f"not settled within {within_s:g} s: {self._waiting(unfinished or {})}")
            time.sleep(_LOOK_S)  # noqa: TID251 - as a test waits

    def outputs(self, topic: str) -> list[WrittenRecord]:
        """Return all committed records of a topic, the oldest first."""
        return [WrittenRecord(*self._fields(message, headers, topic)) for message, headers in self._read([topic])]

    def dead_letters(self, source: str | None = None) -> list[DeadRecord]:
        """Return the dead letters of a source, or of all sources, the oldest first."""
        found = []
        for message, headers in self._read(sweep_plan(self.settings).topics):
            origin = read_address(headers) or ""
            if source in {None, origin}:
                texts = {name: (value or b"").decode(errors="replace") for name, value in headers}
                cause = read_failure_cause(dict(headers).get(FAILURE_CAUSE))
                count = texts.get(DELIVERY_COUNT, "")
                found.append(
                    DeadRecord(
                        *self._fields(message, headers, origin),
                        texts.get(ORIG_MESSAGE_ID, ""),
                        int(count) if count.isdigit() else 0,
                        cause.reason,
                        cause.exception,
                        cause.message,
                        cause.frames or (),
                    )
                )
        return found

    def _codecs_of(self, topic: str) -> tuple[Codec, Codec]:
        return self._codecs.get(topic, (RawCodec(), RawCodec()))

    def _fields(
        self, message: Message, headers: HeaderList, codecs_of: str
    ) -> tuple[str, int, int, Any, Any, Mapping[str, bytes | None], int]:
        key, value = self._codecs_of(codecs_of)
        return (
            message.topic(),
            message.partition(),
            message.offset(),
            _decoded(key, message.key(), headers, KEY_HEADER),
            _decoded(value, message.value(), headers, VALUE_HEADER),
            dict(users_own(headers)),
            message.timestamp()[1],
        )

    def _read(self, topics: Iterable[str]) -> list[tuple[Message, HeaderList]]:
        """Return the committed records of topics, once nothing of them is in an open transaction."""
        partitions = partitions_of(topics, self._admin.partition_counts())
        deadline_s = monotonic_s() + _SHOWN_S
        while (ends := self._offsets.last_stable_offsets(partitions)) != self._offsets.high_watermarks(partitions):
            if monotonic_s() > deadline_s:
                hidden = ", ".join(sorted({each.topic for each in partitions}))
                raise TimeoutError(f"a transaction on {hidden} was open for {_SHOWN_S:g} s, so its records are hidden")
            time.sleep(_LOOK_S)  # noqa: TID251 - as a test waits
        starts = self._offsets.log_start_offsets(partitions)
        found = read_between(self.settings.kafka, self.settings.group, starts, ends)
        ordered = sorted(found, key=lambda each: (each.timestamp()[1], each.topic(), each.partition(), each.offset()))
        return [(message, readable_headers(message)) for message in ordered]

    def _unfinished(self) -> Mapping[str, int] | None:
        """Return how many records of each topic are not finished; ``None`` if records moved while it looked."""
        settings, counts = self.settings, self._admin.partition_counts()
        naming = settings.naming()
        sources = [each.topic for each in settings.sources]
        read = [*sources, *map(naming.ready_topic, sources)]
        tiers = [*naming.tiers_among(counts), naming.mixed_topic()]
        groups = {
            settings.group: partitions_of(read, counts),
            scheduler_group(settings.group): partitions_of(tiers, counts),
        }
        found = [Positions.of(self._offsets, self._committed[group], each) for group, each in groups.items()]
        unfinished = Counter(
            message.topic()
            for each in found
            for message in read_unfinished(settings, each, _READ_AT_MOST, lambda *_: None)
        )
        ends = {partition: end for each in found for partition, end in each.log_ends.items()}
        if not unfinished and (any(each.hidden() for each in found) or self._offsets.high_watermarks(ends) != ends):
            return None
        return unfinished

    def _waiting(self, unfinished: Mapping[str, int]) -> str:
        """Say what is not finished, and what the service reports that keeps records waiting."""
        looked = status(self.settings)
        due = {each.topic: _due(each, looked.at_ms) for each in looked.backlogs}
        parts = [f"{topic} has {_many(number)}{due.get(topic, '')}" for topic, number in unfinished.items()]
        return "; ".join([*parts, *looked.faults]) or "records still move"


def _many(number: int) -> str:
    return "1 record that is not finished" if number == 1 else f"{number} records that are not finished"


def _due(backlog: TopicBacklog, now_ms: int) -> str:
    """Say when the first waiting record of a tier is due, and how most failed."""
    if backlog.first_due_ms is None:
        return ""
    causes = f" ({', '.join(backlog.causes)})" if backlog.causes else ""
    return f", due in {max(0, backlog.first_due_ms - now_ms) / 1000:.1f} s{causes}"


def _decoded(codec: Codec, data: bytes | None, headers: HeaderList, name: str) -> Any:  # noqa: ANN401 - whatever the codec decodes
    try:
        return decoded(codec, data, header_in(codec, headers, name))
    except DecodeError:
        return data
