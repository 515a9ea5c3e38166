"""What a summary of dead letters can group them by."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class By(StrEnum):
    """What letters are grouped by."""

    ORIGIN = "origin"
    REASON = "reason"
    EXCEPTION = "exception"
    FINGERPRINT = "fingerprint"
    STATE = "state"
    GROUP = "group"
    TOPIC = "topic"
    ATTEMPTS = "attempts"
    JOB = "job"


DEFAULT_BY: Final = (By.ORIGIN, By.REASON, By.FINGERPRINT)
