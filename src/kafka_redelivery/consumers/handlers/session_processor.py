"""The processor of the modes ``client`` and ``individual``, in which handlers acknowledge their records."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, Self

from kafka_redelivery.consumers.flow.session import RECOVERED, Delivery, Disposition, Session, Sessions
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Message

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SessionRecord(Record):
    """A record that its handler has to acknowledge."""

    delivery: Delivery = field(repr=False, compare=False)

    @classmethod
    def of(cls, record: Record, delivery: Delivery) -> Self:
        """Add the delivery to a record."""
        values: dict[str, Any] = {each.name: getattr(record, each.name) for each in fields(Record)}
        return cls(**values, delivery=delivery)

    def acknowledge(self) -> None:
        """See :meth:`Record.acknowledge`."""
        self.delivery.session.acknowledge(self.delivery)


@dataclass(slots=True)
class SessionContext(Context):
    """The context of a record that its handler has to acknowledge."""

    delivery: Delivery = field(repr=False, compare=False)

    def acknowledge(self) -> None:
        """See :meth:`Record.acknowledge`."""
        self.delivery.session.acknowledge(self.delivery)

    def recover(self) -> None:
        """See :meth:`Context.recover`."""
        self.delivery.session.recover()


class SessionProcessor(Processor):
    """Handles work items in sessions, one per slot."""

    def __init__(self, sessions: Sessions, *arguments: Any) -> None:  # noqa: ANN401 - those of Processor
        """Prepare.

        Args:
            sessions: the sessions of the worker.
            arguments: as for :class:`Processor`.
        """
        super().__init__(*arguments)
        self._sessions = sessions
        self._session: ContextVar[Session | None] = ContextVar("session", default=None)
        self._free: list[Session] = []
        """Idle sessions of an event loop. There a slot is a task per work item, so it cannot own a session."""

    def run(self, item: WorkItem) -> None:
        """See :class:`Processor`. Each thread has its own session."""
        if self._session.get() is None:
            self._session.set(self._sessions.open())
        super().run(item)

    async def run_async(self, item: WorkItem) -> None:
        """See :class:`Processor`."""
        session = self._free.pop() if self._free else self._sessions.open()
        self._session.set(session)
        try:
            await super().run_async(item)
        finally:
            self._free.append(session)

    def prepare(self, item: WorkItem, message: Message) -> Record | Failure:
        """See :class:`Processor`."""
        session = self._current_session()
        session.current = None
        record = super().prepare(item, message)
        if isinstance(record, Failure):
            return record
        return SessionRecord.of(record, session.deliver(item.lane, message))

    def _context(self, item: WorkItem, record: Record) -> Context:
        context = super()._context(item, record)
        assert isinstance(record, SessionRecord)  # noqa: S101 - from prepare()
        return SessionContext(context.deliveries, context.outputs, record.delivery)

    def _hold(self, item: WorkItem, error: Exception) -> None:
        delivery = self._current_session().current
        if delivery is not None:
            item.unacknowledged = [each for each in item.unacknowledged if each[0] != item.position]
            delivery.ended = True  # no later disposition counts
            self._sessions.close(delivery)
        super()._hold(item, error)

    def _store_outcome(
        self, item: WorkItem, failure: Failure | None, context: Context | None, before: float
    ) -> float | None:
        delivery = self._current_session().current
        if delivery is None:  # its handler was not called
            return super()._store_outcome(item, failure, context, before)
        if failure is not None:
            acknowledged = delivery.disposition is Disposition.ACKNOWLEDGED
            if not acknowledged or failure.kind is FailureKind.CRITICAL:
                self._sessions.close(delivery)
                return super()._store_outcome(item, failure, context, before)
            _log.warning(
                "a handler failed after it had acknowledged its record, which is not redelivered: %s",
                self._handler.details.of(failure).cause,
            )
        disposition = delivery.session.handler_returned(delivery)
        if disposition is None:
            item.unacknowledged.append((item.position, delivery))
        return super()._store_outcome(
            item, RECOVERED if disposition is Disposition.RECOVERED else None, context, before
        )

    def _current_session(self) -> Session:
        session = self._session.get()
        assert session is not None  # noqa: S101 - set by run() and run_async()
        return session
