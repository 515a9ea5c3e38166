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

    def __init__(self, target: str, problem: str, fix: str) -> None:
        super().__init__(f"handler {target}: {problem}; {fix}")
        self.target = target
        self.problem = problem
        self.fix = fix


class HandlerUnavailable(ConsumersError):  # noqa: N818 - a state of the handler's processes, not an error of the record
    """No process of the handler can be started at present. The record waits and is tried again, uncounted."""


class EndpointError(ConsumersError):
    """The HTTP endpoint for metrics and probes cannot be opened. Raised at start only."""

    exit_code = exit_codes.CONFIGURATION

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"metrics: cannot listen on {host}:{port}: {reason}; give each process on this machine its own "
            "metrics.port (0 = any free port), or set metrics.host to an address of this machine"
        )
        self.host = host
        self.port = port


class SweepError(ConsumersError):
    """A manual sweep cannot run: schedulers of the group sweep already, or Kafka refuses to let it read the topics."""


class RedriveError(ConsumersError):
    """Dead letters cannot be sent again; the message says why, and what to do."""


class SlowQueryError(ConsumersError, TimeoutError):
    """A query over dead letters takes too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the query takes longer than {seconds:g} s; make --where simpler, or select fewer letters with --origin "
            "or --since in addition"
        )


class IndexUnusableError(ConsumersError):
    """The index of dead letters cannot be kept where it should be; the message says why, and what to do."""


class ContinuedElsewhereError(RedriveError):
    """Another process has taken over the job, and goes on with it."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"job {job} is continued elsewhere: another process has taken it over, or this one was suspended for "
            "longer than a transaction may be open; `redelivery dlq jobs` shows how far it is"
        )
        self.job = job


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
