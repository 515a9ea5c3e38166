"""One record through decoding and the handler, to its outcome. Runs in the slots."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from consumers.clock import Clock, monotonic_s
from consumers.handler import Handler, not_run
from consumers.outputs import as_copy
from consumers.record import Context, Record
from consumers.routes import Route
from consumers.unit import Unit
from serdes.codec import Codec
from serdes.errors import DecodeError
from topology.decision import Failure, FailureKind
from topology.errors import HeaderError
from topology.headers import Headers, read_due, read_expiration, read_lineage, users_own
from topology.lineage import Lineage
from transport.message_headers import UnreadableHeadersError, headers_of
from transport.protocols import Copy, Message, Topics

SLICE_S = 0.02
"""A unit comes back after so long, so that a slow handler's results are committed as they come."""


class Processor:
    """Runs units. Thread-safe: it holds nothing that changes."""

    def __init__(
        self,
        handler: Handler,
        outputs: Mapping[str, tuple[Codec, Codec]],
        clock: Clock,
        deadline: timedelta | None,
        topics: Topics | None = None,
    ) -> None:
        """Prepare.

        Args:
            handler: the user's function.
            outputs: for each output topic the codecs of key and value.
            clock: decides whether a record is expired.
            deadline: longest time for one call of an asynchronous handler; threads are watched from outside.
            topics: asked whether an output can be written; ``None`` = not checked.
        """
        self._topics = topics
        self._handler = handler
        self._outputs = outputs
        self._clock = clock
        self._deadline_s = None if deadline is None else deadline.total_seconds()

    def run(self, unit: Unit) -> None:
        """Handle the records of a unit one after the other, in this thread."""
        handler = self._handler
        slice_end = monotonic_s() + SLICE_S
        for message in unit.messages[unit.position :]:
            before = unit.started_s = monotonic_s()
            if unit.stop or unit.abandoned or unit.critical or (unit.position and before > slice_end):
                break
            delivery = self._prepare(unit, message)
            if isinstance(delivery, Failure):
                self._note(unit, delivery, None, before)
                continue
            record, context = delivery
            try:
                result = handler.call(record, context) if handler.takes_context else handler.call(record)
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises is this record's outcome
                self._note(unit, handler.failure(error), None, before)
            else:
                failure = None if result is None else not_run(result)
                self._note(unit, failure, context if failure is None else None, before)

    async def run_async(self, unit: Unit) -> None:
        """The same for an asynchronous handler, in an event loop."""
        handler = self._handler
        slice_end = monotonic_s() + SLICE_S
        for message in unit.messages[unit.position :]:
            before = unit.started_s = monotonic_s()
            if unit.stop or unit.abandoned or unit.critical or (unit.position and before > slice_end):
                break
            delivery = self._prepare(unit, message)
            if isinstance(delivery, Failure):
                self._note(unit, delivery, None, before)
                continue
            record, context = delivery
            limit = asyncio.timeout(self._deadline_s)
            try:
                async with limit:
                    result = await (handler.call(record, context) if handler.takes_context else handler.call(record))
            except BaseException as error:  # noqa: BLE001 - as in run()
                if _cancelled(error):
                    return
                late = limit.expired()
                self._note(unit, deadline_passed(self._deadline_s) if late else handler.failure(error), None, before)
            else:
                failure = None if result is None else not_run(result)
                self._note(unit, failure, context if failure is None else None, before)

    def _prepare(self, unit: Unit, message: Message) -> tuple[Record, Context] | Failure:
        """The record and context of a delivery, or why there is none. Notes the lineage of a redelivery."""
        assigned = unit.lane.assigned
        route = assigned.route
        try:
            headers = headers_of(message)
        except UnreadableHeadersError as error:
            if assigned.redelivered:
                unit.lineages.append(fresh_lineage(message, ()))
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
        if assigned.redelivered:
            lineage = self._lineage(headers)
            if isinstance(lineage, Failure):
                unit.lineages.append(fresh_lineage(message, headers))
                return lineage
            unit.lineages.append(lineage)
        else:
            lineage = fresh_lineage(message, headers)
        if lineage.expiration_ms and self._clock() >= lineage.expiration_ms:
            return Failure(FailureKind.EXPIRED, "Expired", f"JMSExpiration was {lineage.expiration_ms}")
        if route.entry.redelivery_policy.exceeded(lineage.deliveries):
            return Failure(FailureKind.EXHAUSTED, "Exhausted", f"delivered {lineage.deliveries} times")
        if not assigned.redelivered:
            return self._decode(message, route, lineage, headers)
        delivery = self._decode(message, route, lineage, users_own(headers))
        due_ms = None if isinstance(delivery, Failure) else read_due(headers)
        if due_ms is not None:
            unit.lateness.append((len(unit.lineages) - 1, self._clock() - due_ms))
        return delivery

    def _decode(
        self, message: Message, route: Route, lineage: Lineage, headers: Headers
    ) -> tuple[Record, Context] | Failure:
        raw_key, raw_value = message.key(), message.value()
        try:
            key, value = route.key.decode(raw_key), route.value.decode(raw_value)
        except DecodeError as error:
            return Failure(FailureKind.UNDECODABLE, type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - a schema registry that is down is not the record's fault: retried
            kind = FailureKind.CRITICAL if isinstance(error, MemoryError) else FailureKind.RAISED
            return Failure(kind, type(error).__name__, str(error))
        record = Record(
            lineage.address, lineage.partition, lineage.offset, key, value, raw_key, raw_value, headers,
            lineage.timestamp_ms,
        )  # fmt: skip
        return record, Context(lineage, [])

    def _lineage(self, headers: Headers) -> Lineage | Failure:
        try:
            return read_lineage(headers)
        except HeaderError as error:
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))

    def _note(self, unit: Unit, failure: Failure | None, context: Context | None, before: float) -> None:
        """Note a record's outcome, unless the unit was abandoned meanwhile."""
        copies: list[Copy] | None = None
        if context is not None and context.outputs:
            try:
                copies = [as_copy(output, self._outputs.get(output.topic), self._topics) for output in context.outputs]
            except Exception as error:  # noqa: BLE001 - what a handler emits is part of handling the record
                failure = self._handler.failure(error)
        after = monotonic_s()
        with unit.lock:
            if unit.abandoned:
                return
            if failure is not None:
                unit.failures.append((unit.position, failure))
            elif copies is not None:
                unit.outputs.append((unit.position, copies))
            unit.seconds.append(after - before)
            unit.position += 1


def fresh_lineage(message: Message, headers: Headers) -> Lineage:
    """The lineage of a record at its first delivery."""
    expiration_ms = read_expiration(headers) if headers else 0
    return Lineage(message.topic(), message.partition(), message.offset(), message.timestamp()[1], 0, expiration_ms)


def _cancelled(error: BaseException) -> bool:
    """Whether the slots are closing; a handler may raise the same where it cancelled something itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def deadline_passed(deadline_s: float | None) -> Failure:
    """The failure of a handler that did not return in time."""
    return Failure(FailureKind.DEADLINE, "DeadlineExceeded", f"the handler took longer than {deadline_s} s")
