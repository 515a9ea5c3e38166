"""The sections of the file that hold a policy in its simple form: one entry, no map."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from topology.java_numbers import LONGEST_LIFE_MS
from topology.policy import BackOffAlgorithm, DeadLetterKind, DeadLetterStrategy, PolicyEntry, RedeliveryPolicy
from topology.section import Duration, Section

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
    pre_dispatch_check: bool = True
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
            pre_dispatch_check=self.pre_dispatch_check,
            algorithm=self.algorithm,
        )


class DeadLetterStrategySection(Section):
    """``deadLetterStrategy``: where dead letters go and how long they live."""

    kind: DeadLetterKind = DeadLetterKind.INDIVIDUAL
    topic: str | None = Field(
        None, description="template with {topic} and {group}; default DLQ.{topic}, shared: ActiveMQ.DLQ"
    )
    process_expired: bool = True
    enable_audit: bool = True
    expiration: int = Field(0, ge=0, le=LONGEST_LIFE_MS, description="ms a dead letter lives; 0 = for ever")
    expiry_address: str | None = Field(
        None, description="template with {topic} and {group}: where expired records and dead letters go"
    )

    def value(self) -> DeadLetterStrategy:
        """The strategy itself."""
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
