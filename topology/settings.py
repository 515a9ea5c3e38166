"""The configuration as typed, frozen values, in ActiveMQ's own words.

The models are the single description of the YAML file: its JSON Schema is made from them. Faults that
need more than one field are found in :mod:`topology.configuration`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from topology.durations import format_duration, parse_duration
from topology.naming import Naming
from topology.policy import (
    BackOffAlgorithm,
    DeadLetterKind,
    DeadLetterStrategy,
    PolicyEntry,
    RedeliveryPolicy,
)


def _as_text(schema: dict[str, Any]) -> None:
    schema.pop("format", None)
    schema |= {"type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$"}


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    Field(json_schema_extra=_as_text),
]
"""``250ms``, ``1s``, ``90s``, ``5m``, ``1h``, ``7d``."""


_NUMBERS = (int, float, int | None, float | None)


_LONGEST_LIFE_MS = 2**62
"""Added to the clock it still is a 64-bit number."""


class Section(BaseModel):
    """Base of every part of the file: camelCase names, unknown names refused, values frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth_as_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse ``slots: yes``: pydantic would read it as 1."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in _NUMBERS:
            msg = "must be a number, not true or false"
            raise ValueError(msg)
        return value


class Mode(StrEnum):
    """How results are acknowledged."""

    TRANSACTED = "transacted"
    """Outputs, copies and offsets in one Kafka transaction: exactly once."""

    AUTO = "auto"
    """Copies confirmed, then offsets committed: at least once."""


class Ordering(StrEnum):
    """What the slots keep in order."""

    PARTITION = "partition"
    KEY = "key"
    UNORDERED = "unordered"


_MAXIMUM = "-1 = no limit, 0 = none; lower: dead-lettered unseen, as in Classic"


class RedeliveryPolicySection(Section):
    """``redeliveryPolicy``: ActiveMQ Classic's properties. Delays in milliseconds."""

    maximum_redeliveries: int = Field(6, ge=-(2**31), lt=2**31, description=_MAXIMUM)
    initial_redelivery_delay: int = Field(1000, description="ms before the first redelivery")
    redelivery_delay: int = Field(1000, description="ms before later redeliveries")
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    maximum_redelivery_delay: int = Field(-1, description="ms; -1 = no limit; only with exponential back-off")
    use_collision_avoidance: bool = False
    collision_avoidance_factor: float | None = Field(None, description="0.15 = plus or minus 15 %")
    collision_avoidance_percent: int | None = Field(None, ge=-(2**15), lt=2**15)
    algorithm: BackOffAlgorithm = BackOffAlgorithm.CURRENT

    def value(self) -> RedeliveryPolicy:
        """The policy itself."""
        factor = self.collision_avoidance_factor
        if factor is None:
            percent = self.collision_avoidance_percent
            factor = 0.15 if percent is None else percent * 0.01
        return RedeliveryPolicy(
            maximum_redeliveries=self.maximum_redeliveries,
            initial_redelivery_delay=self.initial_redelivery_delay,
            redelivery_delay=self.redelivery_delay,
            use_exponential_back_off=self.use_exponential_back_off,
            back_off_multiplier=self.back_off_multiplier,
            maximum_redelivery_delay=self.maximum_redelivery_delay,
            use_collision_avoidance=self.use_collision_avoidance,
            collision_avoidance_factor=factor,
            algorithm=self.algorithm,
        )


class DeadLetterStrategySection(Section):
    """``deadLetterStrategy``: where dead letters go and how long they live."""

    kind: DeadLetterKind = DeadLetterKind.INDIVIDUAL
    topic: str | None = Field(
        None, description="template with {topic} and {group}; default DLQ.{topic}, shared: ActiveMQ.DLQ"
    )
    process_expired: bool = True
    expiration: int = Field(0, ge=0, le=_LONGEST_LIFE_MS, description="ms a dead letter lives; 0 = for ever")

    def value(self) -> DeadLetterStrategy:
        """The strategy itself."""
        shared = self.kind is DeadLetterKind.SHARED
        default = "ActiveMQ.DLQ" if shared else "DLQ.{topic}"
        return DeadLetterStrategy(
            kind=self.kind,
            topic=default if self.topic is None else self.topic,
            process_expired=self.process_expired,
            expiration=self.expiration,
        )


class PolicyEntrySection(Section):
    """What is configured for one destination (a source topic)."""

    redelivery_policy: RedeliveryPolicySection = RedeliveryPolicySection()
    dead_letter_strategy: DeadLetterStrategySection = DeadLetterStrategySection()
    maximum_handler_delay: Duration | None = Field(
        None, description="longest delay a handler may ask for; absent = it may not ask"
    )

    def value(self) -> PolicyEntry:
        """The entry itself."""
        longest = self.maximum_handler_delay
        return PolicyEntry(
            redelivery_policy=self.redelivery_policy.value(),
            dead_letter_strategy=self.dead_letter_strategy.value(),
            maximum_handler_delay=None if longest is None else longest // timedelta(milliseconds=1),
        )


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
    policy: PolicyEntrySection | None = Field(None, description="instead of the file's policyEntry")


class OutputSection(CodecSection):
    """One topic that handlers emit to, when they emit values instead of bytes."""

    topic: str = Field(min_length=1)


class HandlerSection(Section):
    """The user's function and how it is run."""

    callable: str = Field(pattern=r"^[^:\s]+:[^:\s]+$", description="package.module:function")
    slots: int = Field(1, ge=1, le=1024, description="how many records are handled at once")
    ordering: Ordering = Ordering.PARTITION
    deadline: Duration | None = Field(None, description="longest time for one record; absent = none")
    not_retryable: tuple[str, ...] = Field((), description="exception classes, package.module:Class")


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
    mode: Mode = Mode.TRANSACTED
    policy_entry: PolicyEntrySection = PolicyEntrySection()
    journal: bool = False
    topics: TopicsSection = TopicsSection()
    limits: LimitsSection = LimitsSection()
    metrics: MetricsSection = MetricsSection()

    def entry(self, topic: str) -> PolicyEntry:
        """What is configured for a source topic.

        Raises:
            KeyError: the topic is not a source.
        """
        for source in self.sources:
            if source.topic == topic:
                return (self.policy_entry if source.policy is None else source.policy).value()
        raise KeyError(topic)

    def entries(self) -> dict[str, PolicyEntry]:
        """What is configured for every source topic."""
        return {source.topic: self.entry(source.topic) for source in self.sources}

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
