"""What a handler sees and says: the record, its context, and the two exceptions that mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from consumers.errors import AcknowledgementModeError
from topology.headers import Headers


class Reject(Exception):  # noqa: N818 - raised as a verdict, not as an error
    """Raise it where no later delivery could succeed: the record is dead-lettered at once."""


class Redeliver(Exception):  # noqa: N818 - raised as a wish, not as an error
    """Raise it to have the record delivered again, after a delay of your own if you name one.

    It counts as a delivery. Your own delay needs ``maximumHandlerDelay`` in the configuration and is
    cut to it; without it the policy's delay applies.
    """

    after: timedelta | None = None
    """For subclasses that do not call this ``__init__``."""

    def __init__(self, reason: str = "", *, after: timedelta | None = None) -> None:
        """Ask for a redelivery.

        Args:
            reason: for people; it ends up in the dead letter if this was the last delivery.
            after: how long from now; ``None`` = as the policy says.
        """
        if not (after is None or isinstance(after, timedelta)):
            raise TypeError(f"after must be a timedelta, which tells its unit, or None; got {after!r}")
        super().__init__(reason)
        self.after = after


@dataclass(slots=True)
class Record:
    """One delivered record.

    ``topic``, ``partition`` and ``offset`` are those of its *first* delivery, so they are the same at
    every attempt. ``key`` and ``value`` are decoded; ``raw_key`` and ``raw_value`` are the bytes.
    """

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    raw_key: bytes | None
    raw_value: bytes | None
    raw_headers: Headers
    timestamp_ms: int

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The record's headers; of a name given twice, the last."""
        return dict(self.raw_headers)

    @property
    def timestamp(self) -> datetime:
        """The source record's own timestamp, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def message_id(self) -> str:
        """``topic-partition@offset`` of the first delivery."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    def acknowledge(self) -> None:
        """Acknowledge the record in mode ``individual``; in mode ``client`` all that this slot was given so far.

        May be called during the delivery or any time after it, from any thread. What is acknowledged is not delivered
        again, even if its handler fails afterwards. In the other modes a record is acknowledged when its handler
        returns, and this does nothing, as in JMS.
        """


@dataclass(slots=True)
class Output:
    """A record that a handler emits; written only if the handler succeeds."""

    topic: str
    value: Any
    key: Any = None
    headers: Headers = ()
    partition: int | None = None


@dataclass(slots=True)
class Context:
    """One delivery of a record: how often it was tried, and what the handler emits.

    ``attempt`` counts from 1.
    """

    deliveries: int
    """Deliveries made before this one."""

    outputs: list[Output]

    @property
    def attempt(self) -> int:
        """The number of this delivery, from 1."""
        return self.deliveries + 1

    @property
    def redelivered(self) -> bool:
        """Whether the record was delivered before (``JMSRedelivered``)."""
        return self.deliveries > 0

    def acknowledge(self) -> None:
        """See :meth:`Record.acknowledge`."""

    def recover(self) -> None:
        """Have everything delivered again that this slot was given and that is not acknowledged, this record included.

        Each counts as a delivery, and comes after the policy's delay. In modes ``client`` and ``individual``.

        Raises:
            AcknowledgementModeError: the mode is another, where there is nothing to recover.
        """
        raise AcknowledgementModeError

    def send(
        self,
        topic: str,
        value: Any,  # noqa: ANN401 - whatever the topic's codec encodes
        *,
        key: Any = None,  # noqa: ANN401 - as the value
        headers: Mapping[str, bytes | None] | Headers = (),
        partition: int | None = None,
    ) -> None:
        """Emit a record, in the same transaction that acknowledges this one; dropped if the handler fails.

        Args:
            topic: where to.
            value: encoded with the codec configured for that topic; without one it must be bytes.
            key: the same.
            headers: in order.
            partition: ``None`` = by the key, as Java clients do.
        """
        pairs: Headers = ()
        if headers != pairs:
            pairs = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
        self.outputs.append(Output(topic, value, key, pairs, partition))
