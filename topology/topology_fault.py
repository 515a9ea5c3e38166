"""One fault of a cluster's topics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether a worker starts all the same."""

    REFUSE = "refuse"
    """Records would be lost, or nothing could be written: workers and schedulers do not start."""

    WARN = "warn"
    """Nothing is lost by it today."""


@dataclass(frozen=True, slots=True)
class TopologyFault:
    """What is wrong with a topic, what would be lost because of it, and the mend: a command or a setting."""

    severity: Severity
    topic: str
    problem: str
    loss: str
    mend: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.problem}; {self.loss}; {self.mend}"

    def document(self) -> dict[str, str]:
        """The fault as plain data."""
        return {
            "severity": str(self.severity),
            "topic": self.topic,
            "problem": self.problem,
            "loss": self.loss,
            "mend": self.mend,
        }
