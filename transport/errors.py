"""What talking to Kafka can end in. Retryability is a class, never a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class TransportError(Exception):
    """Root of everything this package raises."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A copy that the broker refuses for good: its index in the batch, and the broker's reason."""

    index: int
    reason: str


class WriteRefusedError(TransportError):
    """The broker refuses some copies for good (too large, not authorised, no such partition).

    Nothing was committed. The caller decides about each refused record and writes the rest again.
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(f"{len(refusals)} copies refused, the first: {refusals[0].reason}")
        self.refusals = tuple(refusals)


class WriteUndoneError(TransportError):
    """A write was aborted, or its outcome was unknown and has been settled by a new producer.

    The caller reads the committed offsets back and goes on from them, whatever they are. ``copied`` tells that all
    copies are there for good, and only the offsets are not committed.
    """

    def __init__(self, message: str, *, copied: bool = False) -> None:
        super().__init__(message)
        self.copied = copied


class MembershipOutdatedError(WriteUndoneError):
    """The group has changed since the membership that the write was made with was taken."""


class WriterFencedError(TransportError):
    """Another producer with this ``transactional.id`` has taken over.

    Two processes share an instance name: give each its own. The caller stops without committing.
    """

    def __init__(self, message: str, *, as_member: bool = False) -> None:
        super().__init__(message)
        self.as_member = as_member
        """Whether it is the place in the group that was taken, under the same ``group.instance.id``."""


class ReaderError(TransportError):
    """The consumer cannot go on: not authorised, topic gone, fatal client error. The caller stops."""


class TopicForbiddenError(ReaderError):
    """The user of the ``kafka`` settings may not read a topic. Other topics can be read on."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(f"topic {topic} may not be read ({detail}); grant the right Read on it")
        self.topic = topic


class MissingOffsetError(ReaderError):
    """An internal partition has no committed offset, or one that no longer exists.

    Starting anywhere else could lose or repeat what waits there. Mend: ``redelivery topology check``.
    """


class BrokerUnavailableError(TransportError):
    """No broker answered in time."""

    def __init__(self, servers: str, detail: str = "") -> None:
        cause = f" ({detail})" if detail else ""
        super().__init__(
            f"no Kafka broker answers at {servers}{cause}; start it, or correct bootstrap.servers or the security "
            "settings under kafka (redelivery broker runs a Kafka to try things on)"
        )
        self.servers = servers
