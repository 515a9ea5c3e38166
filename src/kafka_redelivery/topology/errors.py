"""The errors of this package."""

from __future__ import annotations

from typing import ClassVar

from kafka_redelivery.topology import exit_codes


class TopologyError(Exception):
    """The base class of all errors of this package."""

    exit_code: ClassVar[int] = exit_codes.FAILED


class HeaderError(TopologyError):
    """A header that the wire format requires is missing or malformed.

    Raised when a retry record, a ready record or a dead letter is read. The reader dead-letters the record.
    """

    def __init__(self, header: str, problem: str) -> None:
        super().__init__(f"header {header} {problem}")
        self.header = header
        self.problem = problem


class ProgressError(TopologyError):
    """Progress cannot be parsed from the commit metadata, or does not fit into it.

    If it cannot be parsed, another program or a newer version has committed the offset; the partition halts alone.
    """


class ControlRecordError(TopologyError):
    """A record of the control topic cannot be read, because another program has written it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"the record {key!r} of the control topic was not written by this project ({problem}); write a record "
            "without a value (a tombstone) with this key, and do not let other programs write there"
        )
        self.key = key


class NoTierError(TopologyError):
    """A group has no tier: each was deleted. The partition of the record that has to wait halts alone."""


class RedriveRecordError(TopologyError):
    """A record of redrive jobs was not written by this version of this project."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"the record {key} of the redrive jobs cannot be read ({problem}): use the version of kafka-redelivery "
            "that wrote it, or a newer one"
        )
        self.key = key
        self.problem = problem


class ExportedLetterError(TopologyError):
    """A text is not a dead letter as `redelivery dlq export` prints it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"this is not a line of `redelivery dlq export` ({problem})")
        self.problem = problem


class DestinationError(TopologyError):
    """The name of a destination is not valid. Raised when it is parsed."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"destination {name!r} {problem}")
        self.name = name
        self.problem = problem


class MatchError(TopologyError):
    """A pattern is not valid, is too large or takes too long to match. Raised when it is compiled or matched."""

    def __init__(self, match: str, problem: str) -> None:
        super().__init__(f"match {match!r} {problem}")
        self.match = match
        self.problem = problem


class OptionError(TopologyError):
    """A value that a person has given is wrong; the message says why, and what to give instead."""

    exit_code = exit_codes.USAGE

    def __init__(self, option: str, problem: str) -> None:
        """Name the option without its dashes, such as ``since``; a form has a field of the same name."""
        super().__init__(problem)
        self.option = option
