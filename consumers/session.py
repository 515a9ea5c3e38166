"""Sessions of the modes ``client`` and ``individual``: what a slot has been given, and what its handler says of it.

A slot is a session, as in JMS: it is given one record after the other. What the handler has not acknowledged when it
returns stays open in the session until it is acknowledged or recovered, its time is over, or its partition goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from consumers.record import Context, Record
from topology.decision import Failure, FailureKind

if TYPE_CHECKING:
    from consumers.lane import Lane
    from consumers.unit import Assigned
    from transport.protocols import Copy, Message


RECOVERED = Failure(FailureKind.REDELIVER, "Recovered", "the session was recovered before this record was acknowledged")


class Said(Enum):
    """What a handler said of a record."""

    ACKNOWLEDGED = auto()
    RECOVERED = auto()


@dataclass(slots=True, eq=False)
class Delivered:
    """One record in a session."""

    session: Session
    lane: Lane
    message: Message
    said: Said | None = None
    """Guarded by the lock of all sessions, as is ``returned``."""

    returned: bool = False
    """Whether its handler returned without a word: what is said from then on has to be told to the polling thread."""

    copies: list[Copy] = field(default_factory=list)
    """What its handler emitted, to be written when it is acknowledged. Owned by the polling thread, as is the rest."""

    kept_s: float = 0.0
    """Since when it is kept (monotonic); 0 = it is not."""

    over: bool = False
    """Whether it was decided about, or is void."""


class Session:
    """What one slot has been given. Every method may be called from any thread."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.current: Delivered | None = None
        """What its handler is at. Touched by the slot alone."""

        self.open: dict[Delivered, None] = {}
        """In the order of delivery; guarded by the lock of all sessions."""

    def begin(self, lane: Lane, message: Message) -> Delivered:
        """Note that a record is handed to the handler."""
        delivered = self.current = Delivered(self, lane, message)
        with self._sessions.lock:
            self.open[delivered] = None
        return delivered

    def end(self, delivered: Delivered) -> Said | None:
        """The handler has returned.

        Returns:
            what it said of the record meanwhile; ``None``: it stays open, and whoever speaks of it later is heard.
        """
        with self._sessions.lock:
            delivered.returned = delivered.said is None
            return delivered.said

    def acknowledge(self, delivered: Delivered) -> None:
        """Acknowledge a record and, in mode ``client``, whatever else is open in the session."""
        self._say(Said.ACKNOWLEDGED, delivered if self._sessions.individual else None)

    def recover(self) -> None:
        """Have everything delivered again that is open in the session."""
        self._say(Said.RECOVERED, None)

    def _say(self, said: Said, only: Delivered | None) -> None:
        with self._sessions.lock:
            spoken_of = list(self.open) if only is None else [only] * (only in self.open)
            for delivered in spoken_of:
                del self.open[delivered]
                delivered.said = said
                if delivered.returned:
                    self._sessions.told.put(delivered)
        self._sessions.wake()


class Sessions:
    """All sessions of a worker."""

    def __init__(self, *, individual: bool = False, wake: Callable[[], None] = lambda: None) -> None:
        """There is none yet.

        Args:
            individual: whether each record is acknowledged by itself.
            wake: called when something was said, on the thread of whoever said it.
        """
        self.individual = individual
        self.wake = wake
        self.lock = Lock()
        self.told: SimpleQueue[Delivered] = SimpleQueue()
        self._all: list[Session] = []

    def begin(self) -> Session:
        """A new session."""
        session = Session(self)
        with self.lock:
            self._all.append(session)
        return session

    def heard(self) -> Iterator[Delivered]:
        """What was said since, of records whose handler had returned."""
        with suppress(Empty):
            while True:
                yield self.told.get_nowait()

    def drop(self, delivered: Delivered) -> bool:
        """Close a record. False: somebody spoke of it before, or it was closed before."""
        with self.lock:
            was_open = delivered in delivered.session.open
            delivered.session.open.pop(delivered, None)
            return was_open

    def forget(self, assigned: Assigned) -> None:
        """Close all records of a partition: whatever is said of them later is not heard."""
        with self.lock:
            for session in self._all:
                for delivered in [each for each in session.open if each.lane.assigned is assigned]:
                    del session.open[delivered]


@dataclass(slots=True)
class SessionRecord(Record):
    """A record that its handler has to acknowledge."""

    delivered: Delivered = field(repr=False, compare=False)

    @classmethod
    def of(cls, record: Record, delivered: Delivered) -> Self:
        """The same record, in a session."""
        values: dict[str, Any] = {each.name: getattr(record, each.name) for each in fields(Record)}
        return cls(**values, delivered=delivered)

    def acknowledge(self) -> None:
        """See :class:`Record`."""
        self.delivered.session.acknowledge(self.delivered)


@dataclass(slots=True)
class SessionContext(Context):
    """The context of such a record."""

    delivered: Delivered = field(repr=False, compare=False)

    def acknowledge(self) -> None:
        """See :class:`Context`."""
        self.delivered.session.acknowledge(self.delivered)

    def recover(self) -> None:
        """See :class:`Context`."""
        self.delivered.session.recover()
