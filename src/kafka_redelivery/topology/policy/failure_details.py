"""How much of a failure is written down: in headers, logs, archive and report."""

from __future__ import annotations

from enum import StrEnum

from kafka_redelivery.topology.policy.decision import Failure, FailureKind

_TEXT_OF_OURS = frozenset(
    {
        FailureKind.DEADLINE,
        FailureKind.CLOSED,
        FailureKind.DIED,
        FailureKind.EXPIRED,
        FailureKind.EXHAUSTED,
        FailureKind.UNDELIVERABLE,
    }
)
"""Failures whose text this project writes, from numbers and names of topics. It has nothing of key or value."""


class FailureDetails(StrEnum):
    """What is written down about a failed record."""

    FULL = "full"
    """The class of the exception, its text and the record's key."""

    CLASS_ONLY = "class-only"
    """The class of the exception alone: its text and the key may have personal data."""

    @property
    def class_only(self) -> bool:
        """Whether texts of exceptions and keys of records are left out."""
        return self is FailureDetails.CLASS_ONLY

    def of(self, failure: Failure) -> Failure:
        """Return what may be written down about a failure."""
        if self is FailureDetails.FULL or failure.kind in _TEXT_OF_OURS:
            return failure
        return failure._replace(message="")
