"""Sessions of the acknowledgement modes ``client`` and ``individual``.

Each slot is one session, as in JMS: its handler is given one record after the other. A record that the handler has
not acknowledged when it returns stays in the session. It leaves the session when it is acknowledged or recovered,
when the acknowledgement timeout passes, or when the worker loses its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from queue import Empty, SimpleQueue
from threading import Lock

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Message, ProducerRecord

RECOVERED = Failure(FailureKind.REDELIVER, "Recovered", "the session was recovered before this record was acknowledged")


class Disposition(Enum):
    """What the handler did with a record that it was given."""

    ACKNOWLEDGED = auto()
    RECOVERED = auto()


@dataclass(slots=True, eq=False)
class DeliveredRecord:
    """One record that a session was given.

    The lock of :class:`Sessions` guards ``disposition`` and ``returned``. The polling thread owns the fields below
    them.
    """

    session: Session
    lane: Lane
    message: Message
    disposition: Disposition | None = None
    returned: bool = False
    """Whether the handler returned without a disposition. A later one goes to the polling thread through the queue."""

    outputs: list[ProducerRecord] = field(default_factory=list)
    """Records that the handler emitted. They are written when the record is acknowledged."""

    retained_at_s: float = 0.0
    """Monotonic time since which the record is retained as unacknowledged; 0 = it is not retained."""

    ended: bool = False
    """Whether the delivery has its outcome or is void; later dispositions are ignored."""


class Session:
    """The records that one slot was given. Every method is thread-safe."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.unacknowledged: dict[DeliveredRecord, None] = {}
        """Deliveries without a disposition, in order of delivery. The lock of :class:`Sessions` guards it."""

    def deliver(self, lane: Lane, message: Message) -> DeliveredRecord:
        """Add a record that is about to be passed to the handler."""
        delivery = DeliveredRecord(self, lane, message)
        with self._sessions.lock:
            self.unacknowledged[delivery] = None
        return delivery

    def handler_returned(self, delivery: DeliveredRecord) -> Disposition | None:
        """Return the disposition that the handler chose before it returned.

        ``None`` leaves the record in the session; a later disposition is put into :attr:`Sessions.dispositions`.
        """
        with self._sessions.lock:
            delivery.returned = delivery.disposition is None
            return delivery.disposition

    def acknowledge(self, delivery: DeliveredRecord) -> None:
        """Acknowledge a record and, in mode ``client``, all other unacknowledged records of the session."""
        self._dispose(Disposition.ACKNOWLEDGED, delivery if self._sessions.individual else None)

    def recover(self) -> None:
        """Ask for redelivery of all unacknowledged records of the session."""
        self._dispose(Disposition.RECOVERED, None)

    def _dispose(self, disposition: Disposition, only: DeliveredRecord | None) -> None:
        with self._sessions.lock:
            deliveries = list(self.unacknowledged) if only is None else [only] * (only in self.unacknowledged)
            for delivery in deliveries:
                del self.unacknowledged[delivery]
                delivery.disposition = disposition
                if delivery.returned:
                    self._sessions.dispositions.put(delivery)
        self._sessions.wake()


class Sessions:
    """All sessions of a worker."""

    def __init__(self, *, individual: bool = False, wake: Callable[[], None] = lambda: None) -> None:
        """Start without sessions.

        Args:
            individual: whether an acknowledgement covers one record only (mode ``individual``).
            wake: wakes the polling thread; called by the thread that acknowledges or recovers.
        """
        self.individual = individual
        self.wake = wake
        self.lock = Lock()
        self.dispositions: SimpleQueue[DeliveredRecord] = SimpleQueue()
        """Deliveries that got their disposition after their handler had returned."""

        self._all: list[Session] = []

    def open(self) -> Session:
        """Open a session."""
        session = Session(self)
        with self.lock:
            self._all.append(session)
        return session

    def take_dispositions(self) -> Iterator[DeliveredRecord]:
        """Empty :attr:`dispositions`."""
        with suppress(Empty):
            while True:
                yield self.dispositions.get_nowait()

    def close(self, delivery: DeliveredRecord) -> bool:
        """Remove a record from its session. False if it had a disposition or was removed before."""
        with self.lock:
            was_open = delivery in delivery.session.unacknowledged
            delivery.session.unacknowledged.pop(delivery, None)
            return was_open

    def close_partition(self, assigned: AssignedPartition) -> None:
        """Remove all records of a partition from the sessions. Later acknowledgements of them have no effect."""
        with self.lock:
            for session in self._all:
                for delivery in [each for each in session.unacknowledged if each.lane.assigned is assigned]:
                    del session.unacknowledged[delivery]
