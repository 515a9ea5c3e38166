"""What a person needs of an error of Spark's, which brings the stack of every process that it went through."""

from __future__ import annotations

from typing import Final

_OURS: Final = ("consumers.", "transport.", "topology.", "serdes.", "pipeline.")
_SAYS_NOTHING: Final = "An error occurred while calling"
_STACK: Final = ("\tat ", "JVM stacktrace")


def first_line(error: BaseException) -> str:
    """One line, at most 500 characters: our own where the cause is ours."""
    lines = [line.strip(": ") for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith(_SAYS_NOTHING)]
    told = [line for line in lines if line.startswith(_OURS)]
    if told:
        return told[-1][:500]
    return (lines or [type(error).__name__])[0][:500]


def without_stack(error: BaseException) -> str:
    """All that Spark says except the JVM's stack, at most 2,000 characters."""
    return "\n".join(line for line in str(error).splitlines() if not line.startswith(_STACK))[:2000]
