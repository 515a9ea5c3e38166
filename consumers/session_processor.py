"""The processor where handlers acknowledge: what it adds to each call is a session. Other modes do not pass here."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

from consumers.processor import Processor
from consumers.record import Context, Record
from consumers.session import RECOVERED, Said, Session, SessionContext, SessionRecord, Sessions
from consumers.unit import Unit
from topology.decision import Failure, FailureKind
from transport.protocols import Message

_log = logging.getLogger(__name__)


class SessionProcessor(Processor):
    """Runs units in sessions, one for each slot."""

    def __init__(self, sessions: Sessions, *arguments: Any) -> None:  # noqa: ANN401 - those of Processor
        """Prepare.

        Args:
            sessions: all of the worker.
            arguments: see :class:`Processor`.
        """
        super().__init__(*arguments)
        self._sessions = sessions
        self._session: ContextVar[Session | None] = ContextVar("session", default=None)
        self._free: list[Session] = []
        """Of an event loop, whose slots are tasks that come and go."""

    def run(self, unit: Unit) -> None:
        """See :class:`Processor`; the thread is the session."""
        if self._session.get() is None:
            self._session.set(self._sessions.begin())
        super().run(unit)

    async def run_async(self, unit: Unit) -> None:
        """See :class:`Processor`."""
        session = self._free.pop() if self._free else self._sessions.begin()
        self._session.set(session)
        try:
            await super().run_async(unit)
        finally:
            self._free.append(session)

    def prepare(self, unit: Unit, message: Message) -> Record | Failure:
        """See :class:`consumers.processor.Processor`."""
        session = self._here()
        session.current = None
        record = super().prepare(unit, message)
        if isinstance(record, Failure):
            return record
        return SessionRecord.of(record, session.begin(unit.lane, message))

    def _context(self, unit: Unit, record: Record) -> Context:
        context = super()._context(unit, record)
        assert isinstance(record, SessionRecord)  # noqa: S101 - made above
        return SessionContext(context.deliveries, context.outputs, record.delivered)

    def _note(self, unit: Unit, failure: Failure | None, context: Context | None, before: float) -> float | None:
        delivered = self._here().current
        if delivered is None:  # no handler saw it
            return super()._note(unit, failure, context, before)
        if failure is not None:
            acknowledged = delivered.said is Said.ACKNOWLEDGED
            if not acknowledged or failure.kind is FailureKind.CRITICAL:
                self._sessions.drop(delivered)
                return super()._note(unit, failure, context, before)
            _log.warning("a handler failed with a record that it had acknowledged: %s", failure.message)
        said = delivered.session.end(delivered)
        if said is None:
            unit.unacknowledged.append((unit.position, delivered))
        return super()._note(unit, RECOVERED if said is Said.RECOVERED else None, context, before)

    def _here(self) -> Session:
        session = self._session.get()
        assert session is not None  # noqa: S101 - set where a unit begins
        return session
