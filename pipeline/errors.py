"""What the jobs on Spark can end in."""

from __future__ import annotations


class PipelineError(Exception):
    """Root of everything this package raises."""


class SparkUnavailableError(PipelineError):
    """Spark cannot be started. Raised at start only; the message names what is missing and the mend."""
