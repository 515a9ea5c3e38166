"""Errors that end workers and schedulers, or the commands of this package."""

from __future__ import annotations

from typing import ClassVar

from kafka_redelivery.topology import exit_codes


class ConsumersError(Exception):
    """Base class of all errors of this package."""

    exit_code: ClassVar[int] = exit_codes.FAILED


class HandlerLoadError(ConsumersError):
    """The configured handler or an exception class cannot be loaded or used. Raised before any record is handled."""

    exit_code = exit_codes.CONFIGURATION

    def __init__(self, target: str, problem: str, fix: str, setting: str = "handler") -> None:
        """Take the name, what is wrong with it, how to correct it, and the setting that has it."""
        super().__init__(f"{setting} {target}: {problem}; {fix}")
        self.target = target
        self.problem = problem
        self.fix = fix
        self.setting = setting


class CannotStartError(ConsumersError):
    """A process cannot start: its endpoint cannot be opened, or a file of it not be used. The message has the fix."""

    exit_code = exit_codes.CONFIGURATION


class HandlerUnavailable(ConsumersError):  # noqa: N818 - a state of the handler's processes, not an error of the record
    """No process of the handler can be started at present. The record waits and is tried again, uncounted."""


class RedriveError(ConsumersError):
    """Dead letters cannot be sent again; the message says why, and what to do."""


class IndexUnusableError(ConsumersError):
    """The index of dead letters cannot be kept where it should be; the message says why, and what to do."""


class AlreadyRunningError(ConsumersError):
    """A block of an App is entered a second time before it has ended."""


class HaltedError(ConsumersError):
    """The worker stopped to protect data, because it would lose a record or could not handle any.

    It has committed nothing past the record named in the message. A restart tries that record again.
    """

    exit_code = exit_codes.HALTED


class AcknowledgementModeError(ConsumersError):
    """A handler called ``recover()`` in a mode without sessions. It fails the record like any other exception."""

    def __init__(self) -> None:
        super().__init__(
            "recover() needs mode: client or mode: individual; raise Redeliver() to have this record redelivered"
        )


class InvalidValueError(ConsumersError):
    """A decoded value does not fit the handler's type, so its record is dead-lettered without a delivery."""

    def __init__(self, text: str, without_value: str) -> None:
        """Create the error.

        Args:
            text: each place in the value, such as ``$.items[0].amount``, and what is wrong with it.
            without_value: the same with nothing of the value, for ``failureDetails: class-only``.
        """
        super().__init__(text)
        self.without_value = without_value
