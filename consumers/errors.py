"""What running workers and schedulers can end in."""

from __future__ import annotations


class ConsumersError(Exception):
    """Root of everything this package raises."""


class HandlerLoadError(ConsumersError):
    """The configured handler or exception class cannot be loaded or used. Raised at start only."""

    def __init__(self, target: str, problem: str, mend: str) -> None:
        super().__init__(f"handler {target}: {problem}; {mend}")
        self.target = target
        self.problem = problem
        self.mend = mend


class EndpointError(ConsumersError):
    """The endpoint for metrics and probes cannot be opened. Raised at start only."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"metrics: cannot listen at {host}:{port}: {reason}; give each process of a machine a metrics.port of its "
            "own (0 takes any free one), or set metrics.host to an address of this machine"
        )
        self.host = host
        self.port = port


class SweepError(ConsumersError):
    """A pass of the sweeper could not be made: others are at it, or Kafka does not let its topics be read."""


class HaltedError(ConsumersError):
    """The worker stopped to protect data: going on would lose a record or handle none.

    Nothing is committed past the record named. A restart tries again from there.
    """


class AcknowledgementModeError(ConsumersError):
    """A handler recovers its session in a mode that has none. It counts as any exception out of a handler."""

    def __init__(self) -> None:
        super().__init__(
            "recover() needs mode: client or individual; raise Redeliver() to have this one record delivered again"
        )
