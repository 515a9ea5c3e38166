"""Errors of the jobs that run on Spark, and the readable part of Spark's own error messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import ClassVar, Final

from kafka_redelivery.topology import exit_codes


class PipelineError(Exception):
    """Base class of the errors of this package."""

    exit_code: ClassVar[int] = exit_codes.FAILED


class SparkUnavailableError(PipelineError):
    """Spark cannot be started. Raised at start; the message names what is missing and how to install it."""

    exit_code = exit_codes.CONFIGURATION


class KafkaOptionError(PipelineError):
    """A Kafka client setting has no equivalent for Spark. Raised at start.

    Args:
        name: the setting, without the prefix ``kafka.``.
        problem: what is wrong with it.
        fix: what to change.
    """

    exit_code = exit_codes.CONFIGURATION

    def __init__(self, name: str, problem: str, fix: str) -> None:
        super().__init__(f"kafka.{name}: {problem}; {fix}")
        self.name = name
        self.problem = problem
        self.fix = fix


class StreamRefusedError(PipelineError):
    """The streaming query cannot start with this configuration or state. The message says where and how to fix it."""

    exit_code = exit_codes.CONFIGURATION


class StreamHaltedError(PipelineError):
    """The streaming query stopped to protect data. It committed no offset past a record without an outcome."""

    exit_code = exit_codes.HALTED


class StreamUnsettledError(PipelineError):
    """After the time that the run was given, records still wait for a redelivery, or for their first delivery."""

    exit_code = exit_codes.UNSETTLED


class QueryFailedError(PipelineError):
    """A Spark query failed. What it has written stays valid; the next run continues from there."""


class CheckpointError(PipelineError):
    """The checkpoint of an earlier run cannot be read.

    Args:
        location: the file.
        problem: why it cannot be read.
    """

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(
            f"{location} cannot be read: {problem}; restore it, or start a new table: without its checkpoint, a run "
            "would archive all dead letters again"
        )
        self.location = location


class LettersRemovedError(PipelineError):
    """Kafka removed dead letters before they were archived.

    Args:
        locations: the offset ranges, as ``topic-partition@first..last``.
    """

    def __init__(self, locations: list[str]) -> None:
        super().__init__(
            f"removed from Kafka before they were archived: {'; '.join(locations)}. The scheduler removes expired dead "
            "letters, the topic's retention removes others. Archive more often than that; to continue without them, "
            "run once with --skip-removed"
        )
        self.locations = locations


class TableFormatError(PipelineError):
    """There is no Delta table, or the session does not have Delta. The message says how to fix it."""

    exit_code = exit_codes.CONFIGURATION


class PredicateError(PipelineError):
    """The condition that selects the rows to erase is not valid."""

    exit_code = exit_codes.USAGE


class SlowConditionError(PipelineError):
    """The condition was not computed within its time limit. Nothing has been changed.

    Args:
        seconds: the limit.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"--where was not computed for all rows within {seconds:g} s, and nothing was changed: a LIKE with many % "
            "can take for ever on a long text; make it simpler (contains, starts_with), or give more time: --within"
        )


class ConversionError(PipelineError):
    """A table of Parquet was not converted, and is unchanged."""


_PACKAGE: Final = "kafka_redelivery."
_WITHOUT_CAUSE: Final = "An error occurred while calling"
_TRACEBACK: Final = "Traceback (most recent call last):"
_STACK: Final = ("\tat ", "JVM stacktrace")


def first_line(error: BaseException) -> str:
    """Return the line of a Spark error that names the cause, cut to 500 characters.

    Spark's message contains the stack of every process that the error passed through. The last line that names an
    exception of this library wins, then the exception of the last Python traceback; otherwise it is the first line that
    says something.
    """
    text = str(error).splitlines()
    lines = [line.strip(": ") for line in text]
    own = [line for line in lines if line.startswith(_PACKAGE)]
    found = own[-1:] or _raised(text) or [line for line in lines if line and not line.startswith(_WITHOUT_CAUSE)]
    return (found or [type(error).__name__])[0][:500]


def _raised(lines: Sequence[str]) -> list[str]:
    """Return what the last Python traceback says about its exception: its lines that are not indented."""
    after = next((n for n in range(len(lines), 0, -1) if lines[n - 1].endswith(_TRACEBACK)), len(lines))
    outermost = [line for line in takewhile(bool, lines[after:]) if not line[0].isspace()]
    return [line.lstrip(": ") for line in outermost if _WITHOUT_CAUSE not in line]


def without_stack(error: BaseException) -> str:
    """Return the message of a Spark error without the JVM's stack, cut to 2,000 characters."""
    return "\n".join(line for line in str(error).splitlines() if not line.startswith(_STACK))[:2000]
