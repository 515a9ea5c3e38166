"""Where a dead letter stands: whether a job has it, and what became of it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class LetterState(StrEnum):
    """The state of a dead letter; ``DISCARDED`` also of one that a person has set aside."""

    WAITING = "waiting"
    """No job has it."""

    IN_JOB = "in_job"
    """A job has it and has not sent it yet."""

    SENT = "sent"
    """It was sent, and its outcome is not known yet. Or the records of its slice contradict each other, or one of them
    cannot be read."""

    RECOVERED = "recovered"
    DEAD_AGAIN = "dead_again"
    DISCARDED = "discarded"
    EXPIRED = "expired"
    PARKED = "parked"
    REFUSED = "refused"
    """It could not be sent."""

    GONE = "gone"
    """The job did not find it: it was deleted before it could be sent. A later job may have it if it is there."""


UNKNOWN_OUTCOME = frozenset({LetterState.SENT, LetterState.GONE})
"""States in which a letter may stay for ever: no one reports what became of it. A person may set it aside."""


FREE = frozenset({LetterState.WAITING, LetterState.REFUSED})
"""States in which a new job may have a letter that was never sent."""


class Standing(NamedTuple):
    """The state of a letter, by the last job that has or had it."""

    state: LetterState = LetterState.WAITING
    job: str | None = None
    sends: int = 0
    """How often it was sent."""

    reason: str = ""
    """Why it was refused."""

    def may_be_sent(self, *, again: bool) -> bool:
        """Whether a new job may have it. ``again``: also if it was sent before, set aside, or not found."""
        if again:
            return self.state is not LetterState.IN_JOB
        return self.state in FREE and not self.sends
