"""Errors of the jobs that run on Spark, and the readable part of Spark's own error messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import ClassVar, Final

from kafka_redelivery.topology import exit_codes


class PipelineError(Exception):
    """Base class of the errors of this package."""

    exit_code: ClassVar[int] = exit_codes.FAILED


class PipelineRefusedError(PipelineError):
    """A query or job cannot start with this configuration, state, table or installation. The message has the fix."""

    exit_code = exit_codes.CONFIGURATION


class StreamHaltedError(PipelineError):
    """The streaming query stopped to protect data. It committed no offset past a record without an outcome."""

    exit_code = exit_codes.HALTED


class StreamUnsettledError(PipelineError):
    """After the time that the run was given, records still wait for a redelivery, or for their first delivery."""

    exit_code = exit_codes.UNSETTLED


class JavaEndedError(PipelineError):
    """Spark's JVM has ended. A query goes on when it is started again."""

    def __init__(self, code: int, *, query: bool = False) -> None:
        """Name the exit code of its process, and what helps; of a query that is smaller micro-batches, too."""
        how = "out of memory" if code == _OUT_OF_MEMORY else f"exit code {code}"
        fix = "raise spark.driver.memory" + (", or lower pipeline.maxOffsetsPerTrigger," if query else "")
        super().__init__(f"Spark's JVM has ended ({how}): {fix} and start it again; nothing is lost")


_OUT_OF_MEMORY: Final = 52
"""Spark's exit code after an OutOfMemoryError (``SparkExitCode.OOM``)."""

_PACKAGE: Final = "kafka_redelivery."
_WITHOUT_CAUSE: Final = "An error occurred while calling"
_TRACEBACK: Final = "Traceback (most recent call last):"
_STACK: Final = ("\tat ", "JVM stacktrace")
_PLAN: Final = "=== Streaming Query ==="


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
    """Return the message of a Spark error without the JVM's stack and the query's plan, cut to 2,000 characters."""
    told = takewhile(lambda line: line != _PLAN, str(error).splitlines())
    return "\n".join(line for line in told if not line.startswith(_STACK))[:2000]
