"""What running workers and schedulers can end in."""

from __future__ import annotations


class ConsumersError(Exception):
    """Root of everything this package raises."""


class HandlerLoadError(ConsumersError):
    """The configured handler or exception class cannot be loaded or used. Raised at start only."""

    def __init__(self, target: str, problem: str, mend: str) -> None:
        super().__init__(f"handler {target}: {problem}; {mend}")
        self.target = target


class HaltedError(ConsumersError):
    """The worker stopped to protect data: going on would lose a record or handle none.

    Nothing is committed past the record named. A restart tries again from there.
    """
