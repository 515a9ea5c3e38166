"""The policy entry of a destination: how often and when its records are redelivered, and where dead letters go.

How deliveries are counted is defined here, for the whole package. *Deliveries* (and *attempts*) count from 1: the
first time a handler gets a record is delivery 1. *Redelivery* ``k`` is delivery ``k + 1``, so Classic's
``maximumRedeliveries`` = N allows N + 1 deliveries. All delays are whole milliseconds, as on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from kafka_redelivery.topology.artemis.address_settings import AddressSettings
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy


class RetryPolicy(Protocol):
    """How often a failed record is redelivered, and after which delays.

    Implemented by Classic's :class:`~topology.classic.policy.RedeliveryPolicy`, by
    :class:`~topology.classic.layers.LayeredRedelivery` for Classic's client and broker together, and by Artemis's
    :class:`~topology.artemis.address_settings.AddressSettings`. Their docstrings give the formulas.
    """

    @property
    def randomised(self) -> bool:
        """Whether two records that fail alike can get different delays."""

    @property
    def max_deliveries(self) -> int | None:
        """How often a record that always fails is delivered; ``None`` if there is no limit."""

    def exceeded(self, deliveries: int) -> bool:
        """Whether a record that was delivered ``deliveries`` times (0 or more) may not be delivered again."""

    def delay_ms(self, redelivery: int, jitter: Iterable[float]) -> int:
        """Return the delay in ms (0 or more) before a redelivery.

        Args:
            redelivery: its number, counted from 1; the number of the delivery that failed.
            jitter: draws from [-1, 1), at least ``redelivery`` of them; only a randomised policy uses them.

        Raises:
            ValueError: ``redelivery`` is below 1, or there are too few draws.
        """

    def delays_ms(self) -> Iterator[int]:
        """Yield the delays in ms before redelivery 1, 2, 3, ... without their random part.

        They are as the broker computes them, so they may be negative, and may go on after the last redelivery.
        """

    def delay_range_ms(self, redelivery: int) -> tuple[int, int]:
        """Return the shortest and the longest delay in ms that a redelivery can have; both may be negative."""

    def longest_delay_ms(self, horizon: int) -> int:
        """Return an upper bound in ms of the delays before the first ``horizon`` redeliveries."""


class DeadLetterKind(StrEnum):
    """Where the dead letters of a source topic go."""

    INDIVIDUAL = "individual"
    """To a dead-letter topic of its own."""

    SHARED = "shared"
    """To a dead-letter topic that it shares with others."""

    DISCARDING = "discarding"
    """Nowhere: records that fail for good are counted and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStrategy:
    """What happens to the records of one destination that fail for good or expire, in any dialect.

    ``topic`` and ``expiry_topic`` are templates, in which ``{topic}`` and ``{group}`` are replaced. Expired records go
    to ``expiry_topic`` if it is set. A dead letter expires after ``expiration`` ms; 0 means never.

    Three switches drop records, and count them, instead of dead-lettering them: ``process_expired`` (expired records),
    ``process_non_persistent`` (non-persistent records) and ``process_poison`` (all records that failed for good).
    """

    kind: DeadLetterKind = DeadLetterKind.INDIVIDUAL
    topic: str = "DLQ.{topic}"
    expiry_topic: str | None = None
    process_expired: bool = True
    process_non_persistent: bool = True
    process_poison: bool = True
    expiration: int = 0
    enable_audit: bool = True
    max_audit_depth: int = 2048
    max_producers_to_audit: int = 64
    poison_report_interval: int = 0
    """The discarding plugin logs a line after so many dropped records; 0 = no such plugin, or no lines."""

    expired_report_interval: int = 0
    """The same for expired records."""

    def report_interval(self, *, expired: bool) -> int:
        """Return after how many dropped records of a kind a line is logged; 0 or less = never."""
        return self.expired_report_interval if expired else self.poison_report_interval

    @property
    def templates(self) -> tuple[str, ...]:
        """The templates of all topics that dead letters can go to."""
        if self.kind is DeadLetterKind.DISCARDING:
            return ()
        return (self.topic,) if self.expiry_topic is None else (self.topic, self.expiry_topic)

    def accepts(self, *, persistent: bool, expired: bool) -> bool:
        """Whether a record of this kind becomes a dead letter."""
        return (
            self.kind is not DeadLetterKind.DISCARDING
            and (persistent or self.process_non_persistent)
            and (not expired or self.process_expired)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """Everything that decides what happens to a failed record of one destination."""

    redelivery_policy: RetryPolicy = field(default_factory=RedeliveryPolicy)
    dead_letter_strategy: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    maximum_handler_delay: int | None = None
    """The longest delay in ms that a handler may ask for; ``None`` = a delay that it asks for is ignored."""

    def expiration_ms(self, own_ms: int, sent_ms: int) -> int:
        """Return when a record expires (epoch ms, 0 = never).

        Only Artemis's address settings change a record's own expiration. They count from the time the record was
        sent, so a record without a timestamp keeps its own.

        Args:
            own_ms: the record's own expiration (epoch ms, 0 = never).
            sent_ms: the record's timestamp (epoch ms); negative = it has none.
        """
        policy = self.redelivery_policy
        if not isinstance(policy, AddressSettings) or sent_ms < 0:
            return own_ms
        return policy.expiration_ms(own_ms, sent_ms)
