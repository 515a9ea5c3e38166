"""Acknowledgement modes, and when finished records are acknowledged together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AcknowledgementMode(StrEnum):
    """When a delivered record is acknowledged."""

    TRANSACTED = "transacted"
    """In the transaction that commits everything the handler did."""

    AUTO = "auto"
    """When the handler returns, one by one; with ``optimizeAcknowledge`` several together."""

    DUPS_OK = "dups_ok"
    """Lazily, several together."""

    CLIENT = "client"
    """When the handler acknowledges it, together with all records delivered before."""

    INDIVIDUAL = "individual"
    """When the handler acknowledges it; other records are not affected."""

    @property
    def by_handler(self) -> bool:
        """Whether the handler itself acknowledges records."""
        return self in {AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL}


OPTIMIZED_SHARE = 0.65
"""With ``optimizeAcknowledge``, records are acknowledged together when this share of the prefetch is finished."""

LAZY_SHARE = 0.5
"""The same share for records that are acknowledged lazily (``dups_ok``)."""


@dataclass(frozen=True, slots=True)
class LazyAcknowledgement:
    """Acknowledges finished records together: ``dups_ok``, or ``auto`` with ``optimizeAcknowledge``.

    They wait at most ``timeout_ms``; 0 = no limit.

    Source: ``ActiveMQMessageConsumer.afterMessageIsConsumed`` and ``ackLater``. There, the time limit only applies to
    ``optimizeAcknowledge``; here, it also applies to ``dups_ok``, so that the last records of a quiet topic are
    acknowledged.
    """

    mode: AcknowledgementMode
    prefetch: int
    timeout_ms: int

    def now(self, finished: int, elapsed_ms: int) -> bool:
        """Whether the finished records are acknowledged now, rather than later together with more of them.

        Args:
            finished: number of records finished since the last acknowledgement, this one included.
            elapsed_ms: time since the last acknowledgement.
        """
        share = LAZY_SHARE if self.mode is AcknowledgementMode.DUPS_OK else OPTIMIZED_SHARE
        return 0 < self.timeout_ms <= elapsed_ms or finished >= self.prefetch * share

    def left_ms(self, elapsed_ms: int) -> int | None:
        """Return the time in ms until the limit is reached, 0 if it has been; ``None`` if there is no limit."""
        return max(0, self.timeout_ms - elapsed_ms) if self.timeout_ms > 0 else None
