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
from topology.expiry import has_expired
from topology.headers import Headers, read_expiration, read_persistent, read_redelivery
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
        *,
        blocking: bool = False,
    ) -> None:
        """Prepare.

        Args:
            handler: the user's function.
            outputs: for each output topic the codecs of key and value.
            clock: decides whether a record is expired.
            deadline: longest time for one call of an asynchronous handler; threads are watched from outside.
            topics: asked whether an output can be written; ``None`` = not checked.
            blocking: whether a unit ends at its first failure, since what follows may have to wait for that record.
        """
        self._blocking = blocking
        self._topics = topics
        self._handler = handler
        self._outputs = outputs
        self._clock = clock
        self._deadline_s = None if deadline is None else deadline.total_seconds()

    def run(self, unit: Unit) -> None:
        """Handle the records of a unit one after the other, in this thread."""
        handler = self._handler
        before = unit.started_s = monotonic_s()
        slice_end = before + SLICE_S
        for message in unit.messages[unit.position :]:
            if unit.stop or before > slice_end:
                break
            record = self.prepare(unit, message)
            context = None
            if isinstance(record, Failure):
                failure: Failure | None = record
            else:
                try:
                    if handler.takes_context:
                        context = self._context(unit, record)
                        result = handler.call(record, context)
                    else:
                        result = handler.call(record)
                except BaseException as error:  # noqa: BLE001 - whatever a handler raises is this record's outcome
                    failure = handler.failure(error)
                else:
                    failure = None if result is None else not_run(result)
            after = self._note(unit, failure, context, before)
            if after is None:
                break
            before = after

    async def run_async(self, unit: Unit) -> None:
        """The same for an asynchronous handler, in an event loop."""
        handler = self._handler
        before = unit.started_s = monotonic_s()
        slice_end = before + SLICE_S
        for message in unit.messages[unit.position :]:
            if unit.stop or before > slice_end:
                break
            record = self.prepare(unit, message)
            context = None
            if isinstance(record, Failure):
                failure: Failure | None = record
            else:
                limit = asyncio.timeout(self._deadline_s)
                try:
                    async with limit:
                        if handler.takes_context:
                            context = self._context(unit, record)
                            result = await handler.call(record, context)
                        else:
                            result = await handler.call(record)
                except BaseException as error:  # noqa: BLE001 - as in run()
                    if _cancelled(error):
                        return
                    failure = deadline_passed(self._deadline_s) if limit.expired() else handler.failure(error)
                else:
                    failure = None if result is None else not_run(result)
            after = self._note(unit, failure, context, before)
            if after is None:
                break
            before = after

    def _context(self, unit: Unit, record: Record) -> Context:
        del record
        return Context(unit.lineages[-1].deliveries if unit.lineages else 0, [])

    def prepare(self, unit: Unit, message: Message) -> Record | Failure:
        """The record of a delivery, or why there is none. Notes the lineage of a redelivery."""
        assigned = unit.lane.assigned
        if assigned.redelivered:
            return self._prepare_again(unit, message)
        try:
            headers = headers_of(message)
        except UnreadableHeadersError as error:
            if unit.in_place is not None:
                unit.lineages.append(fresh_lineage(message, (), assigned.route))
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
        route, place = assigned.route, assigned.partition
        if unit.in_place is not None:
            return self._deliver_again(unit, message, fresh_lineage(message, headers, route), None, headers)
        if headers or route.sets_expiration:
            expiration_ms = read_expiration(headers)
            if route.sets_expiration:
                expiration_ms = route.entry.expiration_ms(expiration_ms, message.timestamp()[1])
            if expiration_ms and has_expired(expiration_ms, self._clock()):
                return _expired(expiration_ms)
        if route.exhausted_at_once:
            return _exhausted(0)
        return self._record(
            message, route, place.topic, place.number, message.offset(), message.timestamp()[1], headers
        )

    def _prepare_again(self, unit: Unit, message: Message) -> Record | Failure:
        route = unit.lane.assigned.route
        try:
            headers = headers_of(message)
            lineage, due_ms, own = read_redelivery(headers)
        except UnreadableHeadersError as error:
            unit.lineages.append(fresh_lineage(message, (), route))
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
        except HeaderError as error:
            unit.lineages.append(fresh_lineage(message, headers, route))
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
        return self._deliver_again(unit, message, route.with_expiration(lineage), due_ms, own)

    def _deliver_again(
        self, unit: Unit, message: Message, lineage: Lineage, due_ms: int | None, own: Headers
    ) -> Record | Failure:
        route = unit.lane.assigned.route
        if unit.in_place is not None:
            lineage = lineage.delivered(unit.in_place.deliveries)
            due_ms = unit.in_place.due_ms or None
        unit.lineages.append(lineage)
        if lineage.expiration_ms and has_expired(lineage.expiration_ms, self._clock()):
            return _expired(lineage.expiration_ms)
        if route.entry.redelivery_policy.exceeded(lineage.deliveries):
            return _exhausted(lineage.deliveries)
        record = self._record(
            message, route, lineage.address, lineage.partition, lineage.offset, lineage.timestamp_ms, own
        )
        if due_ms is not None and isinstance(record, Record):
            unit.lateness.append((len(unit.lineages) - 1, self._clock() - due_ms))
        return record

    def _record(
        self,
        message: Message,
        route: Route,
        address: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        headers: Headers,
    ) -> Record | Failure:
        """The record decoded, or why it cannot be."""
        key = raw_key = message.key()
        value = raw_value = message.value()
        if not route.raw:
            try:
                key, value = route.key.decode(raw_key), route.value.decode(raw_value)
            except DecodeError as error:
                return Failure(FailureKind.UNDECODABLE, type(error).__name__, str(error))
            except Exception as error:  # noqa: BLE001 - a schema registry that is down is not the record's fault: retried
                kind = FailureKind.CRITICAL if isinstance(error, MemoryError) else FailureKind.RAISED
                return Failure(kind, type(error).__name__, str(error))
        return Record(address, partition, offset, key, value, raw_key, raw_value, headers, timestamp_ms)

    def _note(self, unit: Unit, failure: Failure | None, context: Context | None, before: float) -> float | None:
        """Note the outcome of a record begun at ``before``.

        Returns:
            now, when the next one begins; ``None`` if none may: the unit was abandoned, so that the
            outcome is void, or what follows has to wait, or the failure is critical.
        """
        copies: list[Copy] | None = None
        if context is not None and context.outputs and failure is None:
            try:
                copies = [as_copy(output, self._outputs.get(output.topic), self._topics) for output in context.outputs]
            except Exception as error:  # noqa: BLE001 - what a handler emits is part of handling the record
                failure = self._handler.failure(error)
        if unit.abandoned:
            return None
        if failure is not None:
            unit.failures.append((unit.position, failure))
        elif copies is not None:
            unit.outputs.append((unit.position, copies))
        after = monotonic_s()
        unit.seconds.append(after - before)
        unit.started_s = after
        unit.position += 1  # last: see Unit
        ends = failure is not None and (self._blocking or failure.kind is FailureKind.CRITICAL)
        return None if ends else after


def _expired(expiration_ms: int) -> Failure:
    return Failure(FailureKind.EXPIRED, "Expired", f"JMSExpiration was {expiration_ms}")


def _exhausted(deliveries: int) -> Failure:
    return Failure(FailureKind.EXHAUSTED, "Exhausted", f"delivered {deliveries} times")


def fresh_lineage(message: Message, headers: Headers, route: Route) -> Lineage:
    """The lineage of a record at its first delivery."""
    place = message.topic(), message.partition(), message.offset(), message.timestamp()[1]
    lineage = Lineage(*place, 0, read_expiration(headers), read_persistent(headers)) if headers else Lineage(*place)
    return route.with_expiration(lineage)


def _cancelled(error: BaseException) -> bool:
    """Whether the slots are closing; a handler may raise the same where it cancelled something itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def deadline_passed(deadline_s: float | None) -> Failure:
    """The failure of a handler that did not return in time."""
    return Failure(FailureKind.DEADLINE, "DeadlineExceeded", f"the handler took longer than {deadline_s} s")
