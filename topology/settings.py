"""The configuration as typed, frozen values, in ActiveMQ's own words.

The models are the single description of the YAML file: its JSON Schema is made from them. Faults that
need more than one field are found in :mod:`topology.configuration`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema

from topology.acknowledgement import AcknowledgementMode, LazyAcknowledgement
from topology.artemis.repository import SettingsRepository, address_of
from topology.artemis.resolution import ArtemisResolution, resolve_artemis
from topology.artemis.settings import ArtemisSection
from topology.classic.configuration import ClassicConfiguration
from topology.classic.destination import parse_destination, with_kind, without_kind
from topology.classic.resolution import ClassicResolution, resolve_classic
from topology.classic.settings import ClassicSection
from topology.durations import format_duration
from topology.kafka_names import kafka_topic
from topology.naming import Naming
from topology.pipeline_settings import PipelineSection
from topology.policy import PolicyEntry
from topology.policy_settings import PolicyEntrySection
from topology.section import Duration, Section

Resolution = ClassicResolution | ArtemisResolution
"""What the maps of either dialect say of one destination."""


class Ordering(StrEnum):
    """What the slots keep in order."""

    PARTITION = "partition"
    KEY = "key"
    UNORDERED = "unordered"


class Isolation(StrEnum):
    """What a slot is."""

    NONE = "none"
    """A thread of the worker, or a task of its event loop."""

    PROCESS = "process"
    """A child process."""


class SerdeSection(Section):
    """How bytes become values. ``schemas`` and ``reader`` are paths beside the configuration file."""

    format: Literal["raw", "string", "json", "avro"] = "raw"
    schemas: dict[int, str] = Field({}, description="Avro: schema id -> .avsc file")
    reader: str | None = Field(None, description="Avro: read every version as this .avsc")
    write_id: int | None = Field(None, description="Avro: the schema id that outputs are written with")
    registry: dict[str, str] = Field({}, repr=False, description="Avro: registry client settings, by their own names")
    subject: str | None = Field(None, description="Avro: the registry subject outputs are written under")


class CodecSection(Section):
    """Key and value of a topic."""

    key: SerdeSection = SerdeSection()
    value: SerdeSection = SerdeSection()


class SourceSection(CodecSection):
    """One source topic."""

    topic: str = Field(min_length=1)
    destination: str | None = Field(
        None, min_length=1, description="what the broker calls it: orders.eu, topic:news.sport; default as the topic"
    )
    policy: PolicyEntrySection | None = Field(None, description="instead of the file's policyEntry and maps")


class OutputSection(CodecSection):
    """One topic that handlers emit to, when they emit values instead of bytes."""

    topic: str = Field(min_length=1)


class HandlerSection(Section):
    """The user's function and how it is run."""

    callable: str = Field(pattern=r"^[^:\s]+:[^:\s]+$", description="package.module:function")
    slots: int = Field(1, ge=1, le=1024, description="how many records are handled at once")
    isolation: Isolation = Field(
        Isolation.NONE, description="process: each slot is a child process, which alone dies of a record"
    )
    ordering: Ordering = Ordering.PARTITION
    vectorized: bool = Field(
        default=False, description="the function takes an Arrow record batch; for redelivery pipeline stream alone"
    )
    deadline: Duration | None = Field(None, description="longest time for one record; absent = none")
    not_retryable: tuple[str, ...] = Field((), description="exception classes, package.module:Class")
    non_blocking_redelivery: bool = Field(
        default=True,
        description="false keeps the order: what follows a failed record, by key or by partition, waits for it",
    )
    persist_delivery_count_before_delivery: bool = Field(
        default=False, description="so that a record that kills its worker is counted, and dead-lettered in the end"
    )


class AcknowledgementSection(Section):
    """When what is finished is acknowledged, in the modes that leave it to the client."""

    optimize_acknowledge: bool = Field(default=False, description="mode auto: acknowledge several records at a time")
    optimize_acknowledge_time_out: int = Field(
        300, ge=0, lt=2**63, description="ms that a finished record waits for that; 0 = no limit"
    )
    prefetch: int = Field(
        1000, ge=0, lt=2**31, description="65 % of so many are acknowledged together, or half of them in mode dups_ok"
    )
    timeout: Duration | None = Field(
        None, description="modes client and individual: unacknowledged for so long, a record is redelivered, counted"
    )


class LimitsSection(Section):
    """Bounds of what a process holds and of how long it takes to stop."""

    batch: int = Field(5000, ge=1, le=10_000, description="most records of one commit")
    buffer_records: int = Field(20_000, ge=1, description="most fetched records not yet finished")
    buffer_bytes: int = Field(64 * 2**20, ge=2**16, description="most bytes of them, and of what is being written")
    shutdown_timeout: Duration = Field(timedelta(seconds=25), description="SIGTERM to exit")
    rebalance_timeout: Duration = Field(timedelta(seconds=10), description="to finish what is being handled")

    @property
    def batch_records(self) -> int:
        """How many records make a batch full: ``batch``, or the whole buffer where that is smaller."""
        return min(self.batch, self.buffer_records)


class TopicsSection(Section):
    """Templates and properties of the topics we own. ``{group}``, ``{topic}``, ``{delay}`` are replaced."""

    retry: str = "{group}.retry.{delay}"
    mixed: str = "{group}.retry.mixed"
    ready: str = "{group}.ready.{topic}"
    journal: str = "{group}.journal"
    replication_factor: int | None = Field(None, ge=1, description="absent = as the source")
    audit_horizon: Duration = Field(timedelta(days=7), description="what is done is kept so long in internal topics")


class MetricsSection(Section):
    """The endpoint for Prometheus and for probes."""

    port: int | None = Field(None, ge=0, le=65535, description="absent = none, 0 = any free one")
    host: str = "0.0.0.0"  # noqa: S104 - a container's endpoint is scraped from outside
    stalled_after: Duration = Field(
        timedelta(minutes=2), description="a polling thread that has not turned for so long fails /healthz"
    )


class Settings(Section):
    """The whole file."""

    group: str = Field(min_length=1, description="the consumer group")
    instance: str | None = Field(
        None, pattern=r"^[A-Za-z0-9._-]+$", description="stable and unique name of this process"
    )
    kafka: dict[str, str | int | float | bool] = Field(repr=False, description="client settings, by Kafka's own names")
    sources: tuple[SourceSection, ...] = Field(min_length=1)
    outputs: tuple[OutputSection, ...] = ()
    handler: HandlerSection | None = Field(None, description="absent = scheduler and tools only")
    mode: AcknowledgementMode = AcknowledgementMode.TRANSACTED
    acknowledgement: AcknowledgementSection = AcknowledgementSection()
    policy_entry: PolicyEntrySection = PolicyEntrySection()
    activemq: ClassicSection | None = Field(None, description="ActiveMQ Classic's maps, instead of policyEntry")
    artemis: ArtemisSection | None = Field(None, description="Artemis's address settings, instead of policyEntry")
    journal: bool = False
    topics: TopicsSection = TopicsSection()
    limits: LimitsSection = LimitsSection()
    metrics: MetricsSection = MetricsSection()
    pipeline: PipelineSection | None = Field(None, description="absent = no streaming query")

    def entry(self, topic: str) -> PolicyEntry:
        """What is configured for a source topic.

        Raises:
            KeyError: the topic is not a source.
        """
        source = self._source(topic)
        if source.policy is not None:
            return source.policy.value()
        resolution = self.resolution(source.destination or topic, topic)
        return self.policy_entry.value() if resolution is None else resolution.entry

    def resolution(self, destination: str, topic: str | None = None) -> Resolution | None:
        """What the maps say of a destination, ``None`` if there are none.

        Args:
            destination: as the broker knows it; plain = a queue.
            topic: the Kafka topic it is; without one, that of the source that it is, else of the same name.

        Raises:
            DestinationError: the name is empty.
        """
        kafka = self.topic_of(destination) if topic is None else topic
        if self.activemq is not None:
            longest = self.activemq.maximum_handler_delay_ms
            name = parse_destination(destination)
            return resolve_classic(self._classic, name, kafka, self.group, longest)
        if self.artemis is not None:
            longest = self.artemis.maximum_handler_delay_ms
            return resolve_artemis(self._repository, without_kind(destination), kafka, longest)
        return None

    @cached_property
    def _classic(self) -> ClassicConfiguration:
        return ClassicConfiguration() if self.activemq is None else self.activemq.value()

    @cached_property
    def _repository(self) -> SettingsRepository:
        return SettingsRepository() if self.artemis is None else self.artemis.value()

    def topic_of(self, destination: str) -> str:
        """The Kafka topic of a destination: of the source that it is, else of the same name."""
        for source in self.sources:
            if with_kind(source.destination or source.topic) == with_kind(destination):
                return source.topic
        name = without_kind(destination)
        return kafka_topic(name if self.artemis is None else address_of(name))

    def resolutions(self) -> dict[str, Resolution]:
        """What the maps say of each source topic that has no policy of its own."""
        found = {
            source.topic: self.resolution(source.destination or source.topic, source.topic)
            for source in self.sources
            if source.policy is None
        }
        return {topic: resolution for topic, resolution in found.items() if resolution is not None}

    def _source(self, topic: str) -> SourceSection:
        for source in self.sources:
            if source.topic == topic:
                return source
        raise KeyError(topic)

    def entries(self) -> dict[str, PolicyEntry]:
        """What is configured for every source topic."""
        return {source.topic: self.entry(source.topic) for source in self.sources}

    def lazy_acknowledgement(self) -> LazyAcknowledgement | None:
        """How long successes wait to be acknowledged together, ``None`` if they do not."""
        section = self.acknowledgement
        if self.mode is AcknowledgementMode.DUPS_OK or section.optimize_acknowledge:
            return LazyAcknowledgement(self.mode, section.prefetch, section.optimize_acknowledge_time_out)
        return None

    def naming(self) -> Naming:
        """The names of the group's topics."""
        topics = self.topics
        return Naming(
            group=self.group, retry=topics.retry, mixed=topics.mixed, ready=topics.ready, journal=topics.journal
        )


class _EditorSchema(GenerateJsonSchema):
    """As a person reads it: durations as written in the file, no titles that only repeat a name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401 - pydantic's own types
        del schema
        return False

    def encode_default(self, dft: Any) -> Any:  # noqa: ANN401 - any field's
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors."""
    schema = Settings.model_json_schema(by_alias=True, schema_generator=_EditorSchema)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "kafka-redelivery configuration"
    return schema
