"""The sections of a policy in its simple form: one policy entry, no maps of destinations."""

from __future__ import annotations

from pydantic import Field

from kafka_redelivery.topology.classic.policy import BackOffAlgorithm, RedeliveryPolicy
from kafka_redelivery.topology.config.section import Duration, Section, milliseconds
from kafka_redelivery.topology.java.numbers import MAX_LIFETIME_MS
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry

_MAXIMUM = "0: none; -1: no limit; below -1: dead-lettered without a delivery, as in Classic."


class RedeliveryPolicySection(Section):
    """``redeliveryPolicy``: the properties of ActiveMQ Classic's ``RedeliveryPolicy``. Delays are in milliseconds."""

    maximum_redeliveries: int = Field(6, ge=-(2**31), lt=2**31, description=_MAXIMUM)
    initial_redelivery_delay: int = Field(1000, description="Delay in ms before the first redelivery.")
    redelivery_delay: int = Field(1000, description="Delay in ms before later redeliveries.")
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    maximum_redelivery_delay: int = Field(-1, description="Limit in ms of exponential back-off; -1: no limit.")
    use_collision_avoidance: bool = False
    collision_avoidance_factor: float | None = Field(
        None, description="Random part of a delay: 0.15 means 15 % more or less."
    )
    collision_avoidance_percent: int | None = Field(None, ge=-(2**15), lt=2**15)
    pre_dispatch_check: bool = True
    algorithm: BackOffAlgorithm = BackOffAlgorithm.CURRENT

    def value(self) -> RedeliveryPolicy:
        """Return the policy."""
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
            pre_dispatch_check=self.pre_dispatch_check,
            algorithm=self.algorithm,
        )


class DeadLetterStrategySection(Section):
    """``deadLetterStrategy``: the topic of dead letters and their lifetime."""

    kind: DeadLetterKind = DeadLetterKind.INDIVIDUAL
    topic: str | None = Field(
        None, description="Template with {topic} and {group}. Default: DLQ.{topic}, of kind shared ActiveMQ.DLQ."
    )
    process_expired: bool = True
    enable_audit: bool = True
    expiration: int = Field(
        0, ge=0, le=MAX_LIFETIME_MS, description="Lifetime of a dead letter in ms; 0: it does not expire."
    )
    expiry_address: str | None = Field(
        None, description="Template with {topic} and {group} of the topic for expired records and expired dead letters."
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

    redelivery_policy: RedeliveryPolicySection = RedeliveryPolicySection()
    dead_letter_strategy: DeadLetterStrategySection = DeadLetterStrategySection()
    maximum_handler_delay: Duration | None = Field(
        None,
        description="Longest delay that a handler may request. "
        "Absent: Redeliver(after=...) waits for the policy's delay.",
    )

    def value(self) -> PolicyEntry:
        """Return the entry."""
        return PolicyEntry(
            redelivery_policy=self.redelivery_policy.value(),
            dead_letter_strategy=self.dead_letter_strategy.value(),
            maximum_handler_delay=milliseconds(self.maximum_handler_delay),
        )
