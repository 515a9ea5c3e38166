"""The configuration as typed, frozen values with ActiveMQ's names.

The models define the YAML file, and its JSON Schema is generated from them. Rules that need more than one setting are
in :mod:`topology.config.rules`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr
from pydantic.json_schema import GenerateJsonSchema

from kafka_redelivery.topology.artemis.repository import SettingsRepository, address_of
from kafka_redelivery.topology.classic.configuration import ClassicConfiguration
from kafka_redelivery.topology.classic.destination import parse_destination, with_kind, without_kind
from kafka_redelivery.topology.config.artemis_section import ArtemisSection
from kafka_redelivery.topology.config.classic_section import ClassicSection
from kafka_redelivery.topology.config.section import Duration, PolicyEntrySection, Section, milliseconds
from kafka_redelivery.topology.durations import format_duration
from kafka_redelivery.topology.faults import Path
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode, LazyAcknowledgement
from kafka_redelivery.topology.policy.decision import FailureDetails
from kafka_redelivery.topology.policy.entry import PolicyEntry
from kafka_redelivery.topology.resolution.artemis import ArtemisResolution, resolve_artemis
from kafka_redelivery.topology.resolution.classic import ClassicResolution, resolve_classic
from kafka_redelivery.topology.topics.naming import Naming, kafka_topic


def _as_text(settings: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
    """Return the settings as they are in a file, where all are text."""
    return {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in settings.items()}


_ClientSettings = Annotated[dict[str, str | int | float | bool], AfterValidator(_as_text)]


class SinkSection(Section):
    """A table that receives what handlers emit to one topic."""

    topic: str = Field(min_length=1, description="What handlers send to this topic is appended to the table.")
    path: str = Field(
        min_length=1,
        description=(
            "Folder of the table; a relative path starts at the configuration's folder, a URL has no password."
        ),
    )
    trigger: Duration = Field(
        timedelta(minutes=1), description="Time from one append to the next; each append writes files."
    )
    files: int = Field(
        1, ge=1, description="Maximum number of tasks of an append: each writes one file for each folder of the table."
    )
    partition_by: tuple[str, ...] = Field(("day",), description="Columns that partition the table.")


class PipelineSection(Section):
    """The streaming query that ``redelivery pipeline stream`` runs."""

    checkpoint: str = Field(
        min_length=1,
        description=(
            "Folder of the query's checkpoint; a relative path starts at the configuration's folder, "
            "a URL has no password."
        ),
    )
    trigger: Duration = Field(
        timedelta(0), description="Time from one micro-batch to the next; 0s: the next one starts immediately."
    )
    max_offsets_per_trigger: int = Field(
        100_000,
        ge=1,
        description=(
            "Maximum number of offsets per micro-batch from the sources, and as many each from the "
            "ready topics and the topic of the sink."
        ),
    )
    scheduler: Literal["process", "driver"] = Field(
        "process",
        description="Where the group's scheduler runs: in a process of its own, or in a thread of the driver.",
    )
    sink: SinkSection | None = Field(
        None, description="Table for what handlers send to one topic. Absent: outputs are in Kafka only."
    )
    spark: _ClientSettings = Field({}, repr=False, description="Spark's settings, under Spark's names.")


Resolution = ClassicResolution | ArtemisResolution
"""What Classic's maps or Artemis's address settings mean for one destination."""


class Ordering(StrEnum):
    """The order in which records are handled."""

    PARTITION = "partition"
    KEY = "key"
    UNORDERED = "unordered"


class Isolation(StrEnum):
    """How a slot is isolated from the others."""

    NONE = "none"
    """A slot is a thread of the worker or a task of its event loop."""

    PROCESS = "process"
    """A slot is a child process."""


SerdeFormat: TypeAlias = Literal["raw", "string", "json", "avro", "protobuf", "jsonschema"]
"""The formats of keys and values. :mod:`serdes.build` has a codec for each."""

SchemaIdPlace: TypeAlias = Literal["prefix", "header"]
"""Where the id of a value's schema is: before the value, or in a header of the record. Both are read."""

WITH_SCHEMA: Final = ("avro", "protobuf", "jsonschema")
"""The formats whose values name a schema."""

SERDE_OPTIONS: Final[Mapping[str, tuple[SerdeFormat, ...]]] = {
    "schemas": WITH_SCHEMA,
    "reader": ("avro",),
    "write_id": WITH_SCHEMA,
    "registry": WITH_SCHEMA,
    "subject": WITH_SCHEMA,
    "schema_id": WITH_SCHEMA,
    "message": ("protobuf",),
}
"""The formats that have each field of a :class:`SerdeSection`."""


class SerdeSection(Section):
    """The format of keys or values. The paths in ``schemas`` and ``reader`` are relative to the configuration file."""

    format: SerdeFormat = Field(
        "raw", description="protobuf and jsonschema need the extra of the same name (images have both)."
    )
    schemas: dict[int, str] = Field(
        {}, description="File of each schema id: Avro's .avsc, a descriptor set of Protobuf, or a JSON Schema."
    )
    reader: str | None = Field(None, description="Avro: .avsc file with which every version is read.")
    write_id: int | None = Field(None, description="Id of the schema that outputs are written with.")
    registry: dict[str, str] = Field(
        {},
        repr=False,
        description=(
            "Settings of the schema registry's client, by their own names; needs the extra registry (images have it)."
        ),
    )
    subject: str | None = Field(
        None,
        description=(
            "Subject in the registry that outputs are written with, such as orders-value: Avro with "
            "the id that reader has there, other formats with its latest schema, looked up at the "
            "first output."
        ),
    )
    schema_id: SchemaIdPlace = Field(
        "prefix",
        description=("Where the schema id of outputs is written: before the value, or in a header; both are read."),
    )
    message: str | None = Field(
        None,
        description=(
            "Protobuf: full name of the message that outputs are written as, such as shop.Order. "
            "Default: the first one of the schema."
        ),
    )


class CodecSection(Section):
    """The formats of a topic's keys and values."""

    key: SerdeSection = Field(SerdeSection(), description="Format of the keys.")
    value: SerdeSection = Field(SerdeSection(), description="Format of the values.")


class OutputSection(CodecSection):
    """A topic to which handlers emit values instead of bytes."""

    topic: str = Field(min_length=1, description="Name of the topic. It must exist.")


class BatchSection(Section):
    """How many records a batch handler gets in one call."""

    records: int = Field(
        500, ge=1, le=10_000, description="Maximum number of records of a batch; at most limits.batch."
    )
    wait: Duration = Field(
        timedelta(milliseconds=100),
        description="How long a batch that is not full waits for more records, from its first record on.",
    )


_CALLABLE = r"^[^:\s]+:[^:\s]+$"


class HandlerDefaults(Section):
    """The user's function and how it runs, of each source that does not say otherwise."""

    callable: str | None = Field(
        None, pattern=_CALLABLE, description="package.module:function, or a class; required here or in each source."
    )
    slots: int = Field(
        1,
        ge=1,
        le=1024,
        description=("Number of records that are handled concurrently in each worker, or for each core of a query."),
    )
    isolation: Isolation = Field(
        Isolation.NONE,
        description="process: each slot is a child process; a record that kills it does not kill the worker.",
    )
    ordering: Ordering = Field(
        Ordering.PARTITION,
        description="Order that the slots keep: of each partition, of each key of a partition, or none.",
    )
    value: str | None = Field(
        None,
        pattern=_CALLABLE,
        description=(
            "Type of the values, package.module:Class. Absent: the annotation of the function's first parameter."
        ),
    )
    vectorized: bool = Field(
        default=False, description="The function takes an Arrow record batch; only for redelivery pipeline stream."
    )
    batch: BatchSection | None = Field(
        None,
        description=(
            "The function takes a Batch: many records of one partition in one call. Its annotation says the same."
        ),
    )
    deadline: Duration | None = Field(
        None, description="Time limit for one call, which handles a record or a batch. null: no limit."
    )
    not_retryable: tuple[str, ...] = Field(
        (),
        description=(
            "Exception classes, package.module:Class, that are dead-lettered without a redelivery, "
            "subclasses included; built-in ones without a module."
        ),
    )
    non_blocking_redelivery: bool = Field(
        default=True,
        description="false keeps the order: later records of the partition or key wait for a failed record.",
    )
    persist_delivery_count_before_delivery: bool = Field(
        default=False,
        description=(
            "true: deliveries are counted before they begin, so a record that kills its worker is "
            "dead-lettered after the last one."
        ),
    )

    @property
    def takes(self) -> Literal["record", "batch", "arrow"]:
        """What the file says that the function is called with."""
        if self.vectorized:
            return "arrow"
        return "record" if self.batch is None else "batch"


class DependencySection(Section):
    """Something that handlers call and that can be away. While it is, the records that need it wait, uncounted."""

    unavailable: tuple[str, ...] = Field(
        (),
        description=(
            "Exception classes, package.module:Class, that mean that it is away, subclasses included;"
            " built-in ones without a module. None of them may be in notRetryable. A handler may also"
            " raise Unavailable."
        ),
    )
    deadline: bool = Field(
        default=False,
        description=(
            "true: a call that misses handler.deadline means that it is away; for one dependency of a source at most."
        ),
    )
    probe: str | None = Field(
        None,
        pattern=_CALLABLE,
        description=(
            "package.module:function without parameters that raises, or returns False, while it is "
            "away. Absent: a record is tried."
        ),
    )
    max_outage: Duration | None = Field(
        None, description="Time after which the redelivery policy decides about failures again. Absent: no limit."
    )
    first_pause: Duration = Field(timedelta(seconds=5), description="Time from the outage to the first try.")
    longest_pause: Duration = Field(
        timedelta(seconds=60), description="Longest time between tries; each pause is twice as long as the one before."
    )
    threshold: str | None = Field(
        None,
        pattern=r"^(100|[1-9][0-9]?)% of [1-9][0-9]{0,4}$",
        description="Share of the latest calls that must find it away, such as 50% of 100. Absent: one call is enough.",
    )


def _without_defaults(schema: dict[str, Any]) -> None:
    for each in schema["properties"].values():
        each.pop("default", None)


class SourceHandlerSection(HandlerDefaults):
    """The handler of one source. What it leaves out is that of the section ``handler``."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)


class HandlerSection(HandlerDefaults):
    """A handler with all its settings, see :meth:`Settings.handler_of`."""

    callable: str = Field(pattern=_CALLABLE)
    dependencies: tuple[tuple[str, DependencySection], ...] = ()
    """What the source declares, by name."""


class SourceSection(CodecSection):
    """A source topic."""

    topic: str = Field(min_length=1, description="Name of the topic.")
    destination: str | None = Field(
        None,
        min_length=1,
        description=(
            "Name in the broker, such as orders.eu or topic:news.sport. Default: a queue with the topic's name."
        ),
    )
    policy: PolicyEntrySection | None = Field(
        None, description="Replaces policyEntry, activemq or artemis for this source."
    )
    handler: SourceHandlerSection | None = Field(
        None, description="Handler of this source. What it leaves out is that of the section handler."
    )
    dependencies: tuple[str, ...] = Field(
        (),
        description=("Names in the section dependencies: while one of them is away, the records of this source wait."),
    )


class AcknowledgementSection(Section):
    """When records are acknowledged, in the modes that leave this to the client."""

    optimize_acknowledge: bool = Field(
        default=False, description="Only for mode auto: acknowledge several records together."
    )
    optimize_acknowledge_time_out: int = Field(
        300,
        ge=0,
        lt=2**63,
        description="Longest wait in ms of a finished record for that, also in mode dups_ok; 0: no limit.",
    )
    prefetch: int = Field(
        1000,
        ge=0,
        lt=2**31,
        description="Records are acknowledged together when 65 % of this number are finished; in mode dups_ok, 50 %.",
    )
    timeout: Duration | None = Field(
        None,
        description=(
            "Only for modes client and individual: a record that is unacknowledged for this time is "
            "redelivered, and counted. Absent: never."
        ),
    )


class LimitsSection(Section):
    """Limits of memory, and of the time to stop."""

    batch: int = Field(5000, ge=1, le=10_000, description="Maximum number of records per commit.")
    buffer_records: int = Field(20_000, ge=1, description="Maximum number of fetched records that are not finished.")
    buffer_bytes: int = Field(
        64 * 2**20, ge=2**16, description="Maximum size in bytes of these records and of those being written."
    )
    shutdown_timeout: Duration = Field(
        timedelta(seconds=25),
        description=(
            "Time limit from SIGTERM to exit; the process then exits with 1, whatever still runs. "
            "Handler calls in progress have 3 s less."
        ),
    )
    rebalance_timeout: Duration = Field(
        timedelta(seconds=10), description="Time to finish running handlers before partitions are given back."
    )

    @property
    def batch_records(self) -> int:
        """The number of records in a full batch: ``batch``, or ``buffer_records`` if that is smaller."""
        return min(self.batch, self.buffer_records)


DEFAULT_WIDTH = 16
"""The largest number of partitions of the tiers and ready topics of a new group, unless its configuration has one.

Each partition that a write touches costs a request and a marker. Redeliveries are handled by at most as many workers.
"""


class TopicsSection(Section):
    """Names and properties of the internal topics. ``{group}``, ``{topic}`` and ``{delay}`` are placeholders."""

    retry: str = Field("{group}.retry.{delay}", description="Template of a tier.")
    mixed: str = Field(
        "{group}.retry.mixed",
        description=("Template of the mixed topic, where a record waits for less than the smallest tier of a ladder."),
    )
    ready: str = Field("{group}.ready.{topic}", description="Template of a ready topic.")
    journal: str = Field("{group}.journal", description="Template of the journal.")
    control: str = Field(
        "{group}.control",
        description="Template of the control topic, in which the group keeps what it knows about itself.",
    )
    redrive: str = Field("{group}.dlq", description="Start of the names of the topics .jobs, .actions and .parked.")
    replication_factor: int | None = Field(None, ge=1, description="Absent: that of the source.")
    max_partitions: int | None = Field(
        None,
        ge=1,
        description="Largest number of partitions of tiers and ready topics. "
        f"Absent: {DEFAULT_WIDTH} in a new group; as many as the source in a group that is older than this default.",
    )
    audit_horizon: Duration = Field(timedelta(days=7), description="How long internal topics keep finished records.")


class MetricsSection(Section):
    """The HTTP endpoint for Prometheus and for health checks."""

    port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description=(
            "Absent: no endpoint; 0: any free port, which the log names. Each process on a machine needs its own."
        ),
    )
    host: str | None = Field(
        None, min_length=1, description="Address to listen on. Absent: 127.0.0.1, in a container all addresses."
    )
    stalled_after: Duration = Field(
        timedelta(minutes=2),
        description=(
            "/healthz fails when the polling thread makes no progress for this time, or a write takes"
            " three times as long."
        ),
    )


class IndexSection(Section):
    """The index of dead letters on the machine where `redelivery dlq` runs."""

    values: bool = Field(
        default=True,
        description="false: no keys, header values and values on the disk; so is failureDetails: class-only.",
    )
    decode: bool = Field(
        default=True,
        description=(
            "false: no decoded values of Avro, Protobuf and JSON Schema; a condition on them reads "
            "and decodes all letters each time, and the console refuses it."
        ),
    )
    path: str | None = Field(None, min_length=1, description="Folder of all indexes. Absent: in the user's cache.")


class DeadLettersSection(Section):
    """What `redelivery dlq` does with dead letters."""

    index: IndexSection = Field(
        IndexSection(), description="The index of dead letters on the machine where redelivery dlq runs."
    )
    edit: bool = Field(
        default=True,
        description=("false: redelivery dlq edit is refused, because it keeps edited values in the topic of the jobs."),
    )


class Payloads(StrEnum):
    """Whether the console shows keys, values and headers."""

    SHOWN = "shown"
    HIDDEN = "hidden"


class ConsoleSection(Section):
    """The web console."""

    payloads: Payloads = Field(
        Payloads.SHOWN,
        description=(
            "hidden: no keys, values and headers, and no question about them (condition, search, "
            "compare); no edit and export."
        ),
    )
    read_only: bool = Field(default=False, description="true: nothing can be changed in the console.")
    confirm_over: int = Field(
        100, ge=0, description="A redrive of more letters asks for their number; discard and purge always do."
    )
    grafana: str | None = Field(
        None,
        pattern="^https?://",
        description="Address of Grafana, to which pages link; without a user, password or token.",
    )


class Settings(Section):
    """The configuration file."""

    group: str = Field(min_length=1, description="Consumer group.")
    instance: str | None = Field(
        None, pattern=r"^[A-Za-z0-9._-]+$", description="Stable, unique name of this process, such as ${HOSTNAME}."
    )
    leave_on_stop: bool = Field(
        default=False,
        description=(
            "true: a process with an instance leaves the group when it stops, so that others take its"
            " partitions at once."
        ),
    )
    kafka: _ClientSettings = Field(repr=False, description="Settings of the Kafka clients, under Kafka's names.")
    sources: tuple[SourceSection, ...] = Field(min_length=1, description="What the group consumes.")
    outputs: tuple[OutputSection, ...] = Field(
        (), description="Topics to which handlers send values. A topic that only gets bytes needs no entry."
    )
    dependencies: dict[str, DependencySection] = Field(
        {}, description="What handlers call and can be away, by a name of your own."
    )
    handler: HandlerDefaults | None = Field(
        None,
        description=(
            "The function, or what the handlers of the sources have in common. Absent, also in each "
            "source: the file is for schedulers and tools only."
        ),
    )
    mode: AcknowledgementMode = Field(
        AcknowledgementMode.TRANSACTED,
        description="transacted: exactly once; auto, dups_ok, client, individual: at least once.",
    )
    acknowledgement: AcknowledgementSection = Field(
        AcknowledgementSection(), description="Details of the modes other than transacted."
    )
    policy_entry: PolicyEntrySection = Field(
        PolicyEntrySection(), description="Policy of each source without a policy of its own."
    )
    activemq: ClassicSection | None = Field(None, description="ActiveMQ Classic's configuration; replaces policyEntry.")
    artemis: ArtemisSection | None = Field(None, description="Artemis's address settings; replace policyEntry.")
    journal: bool = Field(
        default=False,
        description=(
            "true: the outcome of each source record is written to the journal topic, in the same transaction."
        ),
    )
    failure_details: FailureDetails = Field(
        FailureDetails.FULL,
        description="class-only: no exception text and no record key in headers, logs, archive and report.",
    )
    dead_letters: DeadLettersSection = Field(
        DeadLettersSection(), description="What redelivery dlq does with dead letters."
    )
    console: ConsoleSection = Field(ConsoleSection(), description="What redelivery console shows and allows.")
    topics: TopicsSection = Field(TopicsSection(), description="Names and properties of the topics of the group.")
    limits: LimitsSection = Field(LimitsSection(), description="Limits of memory and time.")
    metrics: MetricsSection = Field(MetricsSection(), description="Endpoint for Prometheus and probes.")
    pipeline: PipelineSection | None = Field(None, description="Streaming query on Spark. Absent: none.")
    _file: str = PrivateAttr("")

    def named(self, file: str) -> Self:
        """Return these settings with the name of their file, which is not the default one."""
        copied = self.model_copy()
        copied._file = file  # noqa: SLF001 - of its own class
        return copied

    def options(self) -> str:
        """Return the options of a command that name the file of these settings, to be printed after it."""
        return f" --config {shlex.quote(self._file)}" if self._file else ""

    def entry(self, topic: str) -> PolicyEntry:
        """Return the policy entry of a source topic.

        Raises:
            KeyError: the topic is not a source.
        """
        source = self._source(topic)
        if source.policy is not None:
            return source.policy.value()
        resolution = self.resolution(source.destination or topic, topic)
        return self.policy_entry.value() if resolution is None else resolution.entry

    @cached_property
    def handlers(self) -> Mapping[str, HandlerSection]:
        """The handler of each source topic; empty if the file is for schedulers and tools only."""
        found = {source.topic: self._handler(source.handler, source.dependencies) for source in self.sources}
        return {topic: handler for topic, handler in found.items() if handler is not None}

    def handler_of(self, topic: str) -> HandlerSection | None:
        """Return the handler of a source topic, or of a source that would leave everything to the section ``handler``.

        ``None`` if there is none. Sources whose handlers are equal share one.
        """
        return self.handlers.get(topic) or self._handler(None)

    def _handler(self, own: SourceHandlerSection | None, needs: tuple[str, ...] = ()) -> HandlerSection | None:
        sections = [section for section in (self.handler, own) if section is not None]
        given = {name: getattr(section, name) for section in sections for name in section.model_fields_set}
        if given.get("callable") is None:
            return None
        declared = tuple((each, self.dependencies[each]) for each in sorted(set(needs) & self.dependencies.keys()))
        return HandlerSection(**given, dependencies=declared)

    def policy_sections(self) -> Iterator[tuple[Path, PolicyEntrySection]]:
        """Yield every policy section of the file with its path."""
        yield ("policyEntry",), self.policy_entry
        for index, source in enumerate(self.sources):
            if source.policy is not None:
                yield ("sources", index, "policy"), source.policy

    def resolution(self, destination: str, topic: str | None = None) -> Resolution | None:
        """Resolve a destination by Classic's maps or Artemis's address settings, ``None`` without either.

        Args:
            destination: its name in the broker; without ``queue:`` or ``topic:`` it is a queue.
            topic: its Kafka topic; default: that of :meth:`topic_of`.

        Raises:
            DestinationError: the name is empty.
        """
        kafka = self.topic_of(destination) if topic is None else topic
        if self.activemq is not None:
            longest = milliseconds(self.activemq.maximum_handler_delay)
            name = parse_destination(destination)
            return resolve_classic(self._classic, name, kafka, self.group, longest)
        if self.artemis is not None:
            longest = milliseconds(self.artemis.maximum_handler_delay)
            return resolve_artemis(self._repository, without_kind(destination), kafka, longest)
        return None

    @cached_property
    def _classic(self) -> ClassicConfiguration:
        return ClassicConfiguration() if self.activemq is None else self.activemq.value()

    @cached_property
    def _repository(self) -> SettingsRepository:
        return SettingsRepository() if self.artemis is None else self.artemis.value()

    def topic_of(self, destination: str) -> str:
        """Return the topic of the source with this destination, else the topic with the destination's name."""
        for source in self.sources:
            if with_kind(source.destination or source.topic) == with_kind(destination):
                return source.topic
        name = without_kind(destination)
        return kafka_topic(name if self.artemis is None else address_of(name))

    def resolutions(self) -> dict[str, Resolution]:
        """Resolve each source topic that has no policy of its own."""
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
        """Return the policy entry of each source topic."""
        return {source.topic: self.entry(source.topic) for source in self.sources}

    def lazy_acknowledgement(self) -> LazyAcknowledgement | None:
        """Return when finished records are acknowledged together, ``None`` if each is acknowledged by itself."""
        section = self.acknowledgement
        if self.mode is AcknowledgementMode.DUPS_OK or section.optimize_acknowledge:
            return LazyAcknowledgement(self.mode, section.prefetch, section.optimize_acknowledge_time_out)
        return None

    def naming(self) -> Naming:
        """Return the names of the group's topics."""
        templates = {each.name: getattr(self.topics, each.name) for each in fields(Naming) if each.name != "group"}
        return Naming(group=self.group, **templates)


class _EditorSchema(GenerateJsonSchema):
    """Generates defaults as they are written in the file and no titles that repeat a name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401 - pydantic's own types
        del schema
        return False

    def encode_default(self, dft: Any) -> Any:  # noqa: ANN401 - any field's
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def _accept_variables(node: Any) -> None:  # noqa: ANN401 - any part of a JSON Schema
    """Let a text that has to match a pattern contain ``${NAME}``, which is replaced before the file is checked."""
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            node["pattern"] += r"|\$\{[^}]*\}"
        for each in node.values():
            _accept_variables(each)
    elif isinstance(node, list):
        for each in node:
            _accept_variables(each)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors."""
    schema = Settings.model_json_schema(by_alias=True, schema_generator=_EditorSchema)
    _accept_variables(schema)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "kafka-redelivery configuration"
    return schema
