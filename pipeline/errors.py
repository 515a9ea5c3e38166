"""What the jobs on Spark can end in."""

from __future__ import annotations


class PipelineError(Exception):
    """Root of everything this package raises."""


class SparkUnavailableError(PipelineError):
    """Spark cannot be started. Raised at start only; the message names what is missing and the mend."""


class KafkaOptionError(PipelineError):
    """A client setting cannot be said to Spark. Raised at start only."""

    def __init__(self, name: str, problem: str, mend: str) -> None:
        super().__init__(f"kafka.{name}: {problem}; {mend}")
        self.name = name
        self.problem = problem
        self.mend = mend


class StreamRefusedError(PipelineError):
    """The streaming query cannot be started like this. Raised at start only; names the place and the mend."""


class StreamHaltedError(PipelineError):
    """The streaming query stopped to protect data; nothing is committed past what it could not settle."""
