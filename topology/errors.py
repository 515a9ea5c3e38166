"""What the pure core raises. Retryability is a class, never a text."""

from __future__ import annotations


class TopologyError(Exception):
    """Root of everything this package raises."""


class HeaderError(TopologyError):
    """A header of the wire contract is missing or malformed.

    Raised when a retry, ready or dead-letter record is read; the reader dead-letters the record.
    """

    def __init__(self, header: str, problem: str) -> None:
        super().__init__(f"header {header} {problem}")
        self.header = header
        self.problem = problem


class ProgressError(TopologyError):
    """Progress could not be read back or no longer fits into the commit metadata.

    Read back: the offset was committed by something else; mend with ``redelivery topology check``.
    """


class TopicNameError(TopologyError):
    """A topic name is illegal, too long or ambiguous. Raised when the configuration is planned."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"topic name {name!r} {problem}")
        self.name = name
        self.problem = problem


class DestinationError(TopologyError):
    """A destination's name cannot be used. Raised when it is read; write another name."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"destination {name!r} {problem}")
        self.name = name
        self.problem = problem


class MatchError(TopologyError):
    """An address setting's match cannot be used. Raised when it is added; write another match."""

    def __init__(self, match: str, problem: str) -> None:
        super().__init__(f"match {match!r} {problem}")
        self.match = match
        self.problem = problem
