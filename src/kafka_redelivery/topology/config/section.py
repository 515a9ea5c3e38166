"""The base classes of all sections of the configuration file, and the sections of a policy in its simple form."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from kafka_redelivery.topology.classic.policy import BackOffAlgorithm, RedeliveryPolicy
from kafka_redelivery.topology.durations import format_duration, parse_duration
from kafka_redelivery.topology.java.numbers import MAX_LIFETIME_MS
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry


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

HandlerDelay = Annotated[
    Duration | None,
    Field(
        description="Longest delay that a handler may request. "
        "Absent: Redeliver(after=...) waits for the policy's delay."
    ),
]


def milliseconds(duration: timedelta | None) -> int | None:
    """Return an optional duration in whole milliseconds."""
    return None if duration is None else duration // timedelta(milliseconds=1)


_NUMBERS = (int, float, int | None, float | None)


class Section(BaseModel):
    """A frozen section with camelCase names that refuses unknown names.

    The messages of its validators have the form ``problem; fix``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_bool_as_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse ``slots: yes``, which pydantic would read as 1."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in _NUMBERS:
            raise ValueError("must be a number, not true or false; write a number")
        return value


def _to_kebab(name: str) -> str:
    return name.replace("_", "-")


class KebabSection(Section):
    """A section with Artemis's names, such as ``redelivery-delay``."""

    model_config = ConfigDict(alias_generator=_to_kebab)


_MAXIMUM = "0: none; -1: no limit; below -1: dead-lettered without a delivery, as in Classic."


class RedeliveryPolicySection(Section):
    """``redeliveryPolicy``: the properties of ActiveMQ Classic's ``RedeliveryPolicy``. Delays are in milliseconds."""

    maximum_redeliveries: int = Field(6, ge=-(2**31), lt=2**31, description=_MAXIMUM)
    initial_redelivery_delay: int = Field(1000, description="Delay in ms before the first redelivery.")
    redelivery_delay: int = Field(1000, description="Delay in ms before later redeliveries.")
    use_exponential_back_off: bool = Field(
        default=False, description="true: the previous delay times backOffMultiplier instead of redeliveryDelay."
    )
    back_off_multiplier: float = Field(
        5.0, description="Factor of exponential back-off; at 1 or less every later delay is redeliveryDelay."
    )
    maximum_redelivery_delay: int = Field(
        -1,
        description=(
            "With exponential back-off: limit in ms of the second and later delays, before the random"
            " part; below redeliveryDelay it counts as that; -1: no limit."
        ),
    )
    use_collision_avoidance: bool = Field(default=False, description="true: a random part in each delay but the first.")
    collision_avoidance_factor: float | None = Field(
        None, description="Random part of a delay: 0.15 means 15 % more or less."
    )
    collision_avoidance_percent: int | None = Field(
        None, ge=-(2**15), lt=2**15, description="The same in whole percent: 15."
    )
    pre_dispatch_check: bool = Field(
        default=True,
        description=("With maximumRedeliveries below -1: true dead-letters without a delivery, false delivers once."),
    )
    algorithm: BackOffAlgorithm = Field(
        BackOffAlgorithm.CURRENT,
        description="activemq-5.8: without back-off each delay repeats the previous one, not redeliveryDelay.",
    )

    def value(self) -> RedeliveryPolicy:
        """Return the policy."""
        factor = self.collision_avoidance_factor
        if factor is None:
            percent = self.collision_avoidance_percent
            factor = 0.15 if percent is None else percent * 0.01
        values = {each.name: getattr(self, each.name) for each in fields(RedeliveryPolicy)}
        return RedeliveryPolicy(**values | {"collision_avoidance_factor": factor})


class DeadLetterStrategySection(Section):
    """``deadLetterStrategy``: the topic of dead letters and their lifetime."""

    kind: DeadLetterKind = Field(
        DeadLetterKind.INDIVIDUAL,
        description=(
            "individual: a topic for each source; shared: one topic; discarding: dead letters are dropped and counted."
        ),
    )
    topic: str | None = Field(
        None, description="Template with {topic} and {group}. Default: DLQ.{topic}, of kind shared ActiveMQ.DLQ."
    )
    process_expired: bool = Field(default=True, description="true dead-letters expired records, false drops them.")
    enable_audit: bool = Field(default=True, description="true: a record is not dead-lettered twice.")
    expiration: int = Field(
        0, ge=0, le=MAX_LIFETIME_MS, description="Lifetime of a dead letter in ms; 0: it does not expire."
    )
    expiry_address: str | None = Field(
        None,
        description=(
            "Template with {topic} and {group}: topic for expired records, and for dead letters whose"
            " expiration has passed. Absent: expired records go to the dead-letter topic, and expired"
            " dead letters are deleted."
        ),
    )

    def value(self) -> DeadLetterStrategy:
        """Return the strategy."""
        shared = self.kind is DeadLetterKind.SHARED
        default = "ActiveMQ.DLQ" if shared else "DLQ.{topic}"
        return DeadLetterStrategy(
            kind=self.kind,
            topic=default if self.topic is None else self.topic,
            expiry_topic=self.expiry_address,
            process_expired=self.process_expired,
            enable_audit=self.enable_audit,
            expiration=self.expiration,
        )


class PolicyEntrySection(Section):
    """The redelivery policy and the dead-letter strategy of a source topic."""

    redelivery_policy: RedeliveryPolicySection = Field(
        RedeliveryPolicySection(), description="ActiveMQ's redelivery policy."
    )
    dead_letter_strategy: DeadLetterStrategySection = Field(
        DeadLetterStrategySection(), description="ActiveMQ's dead-letter strategy."
    )
    maximum_handler_delay: HandlerDelay = None

    def value(self) -> PolicyEntry:
        """Return the entry."""
        return PolicyEntry(
            redelivery_policy=self.redelivery_policy.value(),
            dead_letter_strategy=self.dead_letter_strategy.value(),
            maximum_handler_delay=milliseconds(self.maximum_handler_delay),
        )
