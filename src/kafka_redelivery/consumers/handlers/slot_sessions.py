"""The sessions of the slots in the modes ``client`` and ``individual``, in which handlers acknowledge their records."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from threading import local
from typing import Any, Self

from kafka_redelivery.consumers.flow.session import RECOVERED, DeliveredRecord, Disposition, Session, Sessions
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.topology.policy.decision import Failure, FailureDetails, FailureKind

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SessionRecord(Record):
    """A record that its handler has to acknowledge."""

    delivery: DeliveredRecord = field(repr=False, compare=False)

    @classmethod
    def of(cls, record: Record, delivery: DeliveredRecord) -> Self:
        """Add the delivery to a record."""
        values: dict[str, Any] = {each.name: getattr(record, each.name) for each in fields(Record)}
        return cls(**values, delivery=delivery)

    def acknowledge(self) -> None:
        """See :meth:`Record.acknowledge`."""
        self.delivery.session.acknowledge(self.delivery)


@dataclass(slots=True)
class SessionContext(Context):
    """The context of a record that its handler has to acknowledge."""

    delivery: DeliveredRecord = field(repr=False, compare=False, kw_only=True)

    def acknowledge(self) -> None:
        """See :meth:`Record.acknowledge`."""
        self.delivery.session.acknowledge(self.delivery)

    def recover(self) -> None:
        """See :meth:`Context.recover`."""
        self.delivery.session.recover()


class SlotSessions:
    """Gives each slot its session, and decides how a call of the handler ended."""

    def __init__(self, sessions: Sessions, details: FailureDetails = FailureDetails.FULL) -> None:
        """Prepare."""
        self._sessions = sessions
        self._details = details
        self._of_thread = local()
        self._free: list[Session] = []
        """Idle sessions of an event loop. There a slot is a task per work item, so it cannot own a session."""

    def of_thread(self) -> Session:
        """Return the session of the current thread, which is a slot."""
        if not hasattr(self._of_thread, "session"):
            self._of_thread.session = self._sessions.open()
        session: Session = self._of_thread.session
        return session

    @contextmanager
    def lent(self) -> Iterator[Session]:
        """Lend a session to a task of an event loop."""
        session = self._free.pop() if self._free else self._sessions.open()
        try:
            yield session
        finally:
            self._free.append(session)

    def take_back(self, item: WorkItem, delivery: DeliveredRecord) -> None:
        """End the delivery of the current record without an outcome."""
        item.unacknowledged = [each for each in item.unacknowledged if each[0] != item.position]
        delivery.ended = True  # no later disposition counts
        self._sessions.close(delivery)

    def outcome(self, item: WorkItem, delivery: DeliveredRecord, failure: Failure | None) -> Failure | None:
        """Return the outcome of the current record, whose handler has returned or failed."""
        if failure is not None:
            acknowledged = delivery.disposition is Disposition.ACKNOWLEDGED
            if not acknowledged or failure.kind is FailureKind.CRITICAL:
                self._sessions.close(delivery)
                return failure
            _log.warning(
                "a handler failed after it had acknowledged its record, which is not redelivered: %s",
                self._details.of(failure).cause,
            )
        disposition = delivery.session.handler_returned(delivery)
        if disposition is None:
            item.unacknowledged.append((item.position, delivery))
        return RECOVERED if disposition is Disposition.RECOVERED else None
