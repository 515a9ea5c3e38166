"""Handles the records of a work item: decodes each, calls the handler and stores the outcome. Runs in the slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Self, cast

from kafka_redelivery.consumers.clock import Clock, monotonic_s
from kafka_redelivery.consumers.errors import HandlerUnavailable
from kafka_redelivery.consumers.flow.assigned_partition import damaged_lineage, initial_lineage
from kafka_redelivery.consumers.flow.session import DeliveredRecord, Disposition, Session
from kafka_redelivery.consumers.flow.work_item import MetOutage, WorkItem, in_slot
from kafka_redelivery.consumers.handlers.event_loop import in_thread
from kafka_redelivery.consumers.handlers.handler import CRITICAL, Handler, not_run
from kafka_redelivery.consumers.handlers.outputs import as_producer_record
from kafka_redelivery.consumers.handlers.record import Context, Output, Record
from kafka_redelivery.consumers.handlers.slot_sessions import SessionContext, SessionRecord, SlotSessions
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.telemetry.logs import handled, wanted
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.serdes.errors import DecodeError, LookUpWaits, SchemaSourceUnavailable, may_wait
from kafka_redelivery.serdes.framing import KEY_HEADER, VALUE_HEADER, decoded, header_in
from kafka_redelivery.topology.errors import HeaderError
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import Headers, has_expired, read_expiration, read_redelivery
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Message, ProducerRecord, TopicMetadata


class CallDeadline:
    """Cancels the task at the deadline, like :func:`asyncio.timeout`, but time in which the process was frozen is free.

    After a freeze, the event loop runs the callbacks of all timers that are due. ``asyncio.timeout`` would cancel a
    handler whose own timer or answer has come meanwhile.
    """

    def __init__(self, seconds: float | None, ago: Callable[[float], float] = seconds_ago) -> None:
        """Prepare.

        Args:
            seconds: how long the task may take within the context; ``None`` = without limit.
            ago: returns the monotonic time since which the loop has run for so many seconds.
        """
        self._seconds = seconds
        self._ago = ago
        self._timeout = asyncio.timeout(None)
        self._started_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def expired(self) -> bool:
        """Whether the task was cancelled at the deadline."""
        return self._timeout.expired()

    async def __aenter__(self) -> Self:
        """Start the time."""
        await self._timeout.__aenter__()
        if self._seconds is not None:
            self._started_s = self._ago(0.0)  # now; freezes are noticed from here on
            self._wait(self._seconds, self._seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the time. Raises ``TimeoutError`` if the deadline has passed."""
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def _wait(self, left_s: float, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(left_s, self._check, seconds)

    def _check(self, seconds: float) -> None:
        left_s = self._started_s - self._ago(seconds)
        if left_s > 0:
            self._wait(left_s, seconds)
        else:
            self._timeout.reschedule(0.0)  # in the past


PROGRAM_ENDS = "the program ends its event loop"

_ENDS = frozenset({FailureKind.CRITICAL, FailureKind.UNAVAILABLE})
"""Failures after which the slot returns its work item."""

SLICE_S = 0.02
"""Time slice of a work item. The item then leaves its slot, so that outcomes of a slow handler are committed soon."""


class Processor:
    """Handles work items. Thread-safe, because it has no mutable state."""

    def __init__(
        self,
        handler: Handler,
        outputs: Mapping[str, tuple[Codec, Codec]],
        clock: Clock,
        deadline: timedelta | None,
        topics: TopicMetadata | None = None,
        *,
        blocking: bool = False,
        sessions: SlotSessions | None = None,
    ) -> None:
        """Prepare.

        Args:
            handler: the user's function.
            outputs: codecs of key and value by output topic.
            clock: epoch ms, for the expiration of records.
            deadline: longest time for one call of an asynchronous handler. The worker watches synchronous ones.
            topics: answers whether topic and partition of an output exist; ``None`` = not checked.
            blocking: whether a work item ends at its first failure, because later records may have to wait for it.
            sessions: those of the slots, if handlers acknowledge their records (``client`` and ``individual``).
        """
        self._blocking = blocking
        self._sessions = sessions
        self._topics = topics
        self._handler = handler
        self._outputs = outputs
        self._clock = clock
        self._deadline_s = None if deadline is None else deadline.total_seconds()

    def run(self, item: WorkItem) -> None:
        """Handle the records of a work item in this thread, one after the other. For synchronous handlers."""
        session = None if self._sessions is None else self._sessions.of_thread()
        in_slot.set(item)
        with suppress(StopIteration):
            self._run(item, session).send(None)  # a synchronous handler awaits nothing, so it runs to its end
        in_slot.set(None)
        if wanted():
            handled.set(None)

    async def run_async(self, item: WorkItem) -> None:
        """Handle the records of a work item in an event loop, one after the other. For asynchronous handlers."""
        may_wait.set(False)  # of this task
        with nullcontext() if self._sessions is None else self._sessions.lent() as session:
            while True:
                try:
                    return await self._run(item, session)
                except LookUpWaits as waits:
                    item.forget_prepared()
                    await self._ask(waits.ask, item)

    async def _ask(self, ask: Callable[[], object], item: WorkItem, delivery: DeliveredRecord | None = None) -> None:
        """Let another thread look something up, so that the other calls of the event loop go on."""
        item.started_s = 0.0  # the deadline is that of the handler
        try:
            await in_thread(ask)
        except asyncio.CancelledError:
            self._hold(item, PROGRAM_ENDS, delivery)
            raise

    async def _run(self, item: WorkItem, session: Session | None) -> None:  # noqa: C901, PLR0912, PLR0915 - this runs for every record, so it is not taken apart
        handler = self._handler
        call, takes_context, asynchronous = handler.call, handler.takes_context, handler.asynchronous
        group, logged = item.lane.assigned.route.group, wanted()
        before = item.started_s = monotonic_s()
        slice_end = before + SLICE_S
        messages: Iterable[Message] = item.messages[item.position :]
        prepared = item.position < len(item.messages) and isinstance(item.messages[item.position], Record)
        if prepared and handler.value is not None:
            messages = map(copy, messages)  # a call changes the value, and the record may be handled again
        for message in messages:
            if item.stop or before > slice_end:
                break
            context = deadline = delivery = None
            if logged:
                handled.set(None)
            try:
                record = cast("Record", message) if prepared else self.prepare(item, message)
            except SchemaSourceUnavailable as error:
                item.hold(str(error))
                break
            if item.stop:  # decoding may have waited for a registry, and the partition may have been given away
                item.forget_prepared()
                break
            if isinstance(record, Failure):
                failure: Failure | None = record
            else:
                if session is not None:
                    delivery = session.deliver(item.lane, message)
                    record = SessionRecord.of(record, delivery)
                if logged:
                    attempt = item.lineages[-1].deliveries + 1 if item.lineages else 1
                    handled.set((record, attempt))
                try:
                    if takes_context:
                        deliveries = item.lineages[-1].deliveries if item.lineages else 0
                        context = (
                            Context(deliveries, [], record, group)
                            if delivery is None
                            else SessionContext(deliveries, [], record, group, delivery=delivery)
                        )
                        result = call(record, context)
                    else:
                        result = call(record)
                    if asynchronous:
                        deadline = CallDeadline(self._deadline_s, handler.loop.seconds_ago)
                        async with deadline:
                            result = await result
                except HandlerUnavailable as error:
                    self._hold(item, "" if item.withdrawn else str(error), delivery)
                    break
                except BaseException as error:  # noqa: BLE001 - whatever a handler raises is the outcome of its record
                    if asynchronous:
                        if item.abandoned:
                            return
                        if handler.loop.ending and isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                            self._hold(item, PROGRAM_ENDS, delivery)
                            break
                        recover_task(item, error)
                    expired = deadline is not None and deadline.expired()
                    failure = handler.missed(self._deadline_s) if expired else handler.failure(error)
                else:
                    failure = None if result is None else not_run(result)
            if failure is not None:
                failure = self._judged(failure, delivery)
                if failure.kind is FailureKind.UNAVAILABLE and not failure.key_only:
                    self._hold_for(item, failure, before, delivery)
                    break
            if self._sessions is not None and delivery is not None:
                failure = self._sessions.outcome(item, delivery, failure)
            try:
                after = self._store_outcome(item, failure, context, before, delivery)
            except LookUpWaits:
                after = await self._store_later(item, cast("Context", context), before, delivery)
            finally:
                if context is not None and context.outputs:
                    handler.settled()
            if after is None:
                break
            before = after

    def prepare(self, item: WorkItem, message: Message) -> Record | Failure:
        """Decode a record, or return the failure that keeps it from the handler.

        Appends the lineage of a redelivery to the item.

        Raises:
            SchemaSourceUnavailable: whether it can be decoded is unknown at present.
            LookUpWaits: its schema has to be looked up, in an event loop.
        """
        assigned = item.lane.assigned
        if assigned.redelivered:
            return self._prepare_from_ready_topic(item, message)
        try:
            headers = headers_of(message)
        except UnreadableHeadersError as error:
            if item.in_place is not None:
                item.lineages.append(initial_lineage(message, (), assigned.route))
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
        route, partition = assigned.route, assigned.partition
        if item.in_place is not None:
            return self._prepare_redelivery(item, message, initial_lineage(message, headers, route), None, headers)
        if headers or route.sets_expiration:
            expiration_ms = read_expiration(headers)
            if route.sets_expiration:
                expiration_ms = route.entry.expiration_ms(expiration_ms, message.timestamp()[1])
            if expiration_ms and has_expired(expiration_ms, self._clock()):
                return _expired(expiration_ms)
        if route.exhausted_at_once:
            return _exhausted(0)
        origin = partition.topic, partition.number, message.offset(), message.timestamp()[1]
        return self._record(item, message, route, origin, headers)

    def _prepare_from_ready_topic(self, item: WorkItem, message: Message) -> Record | Failure:
        route = item.lane.assigned.route
        try:
            headers = headers_of(message)
            lineage, due_ms, user_headers = read_redelivery(headers)
        except UnreadableHeadersError as error:
            item.lineages.append(initial_lineage(message, (), route))
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
        except HeaderError as error:
            item.lineages.append(damaged_lineage(message, headers, route))
            return Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
        return self._prepare_redelivery(item, message, route.with_expiration(lineage), due_ms, user_headers)

    def _prepare_redelivery(
        self, item: WorkItem, message: Message, lineage: Lineage, due_ms: int | None, user_headers: Headers
    ) -> Record | Failure:
        route = item.lane.assigned.route
        if item.in_place is not None:
            lineage = lineage.delivered(item.in_place.deliveries)
            due_ms = item.in_place.due_ms or None
        item.lineages.append(lineage)
        if lineage.expiration_ms and has_expired(lineage.expiration_ms, self._clock()):
            return _expired(lineage.expiration_ms)
        if route.entry.redelivery_policy.exceeded(lineage.deliveries):
            return _exhausted(lineage.deliveries)
        origin = lineage.address, lineage.partition, lineage.offset, lineage.timestamp_ms
        record = self._record(item, message, route, origin, user_headers)
        if due_ms is not None and isinstance(record, Record):
            item.lateness.append((len(item.lineages) - 1, self._clock() - due_ms))
        return record

    @staticmethod
    def _record(
        item: WorkItem, message: Message, route: Route, origin: tuple[str, int, int, int], headers: Headers
    ) -> Record | Failure:
        """Decode a record; ``origin``: topic, partition, offset and timestamp of the source record."""
        key = raw_key = message.key()
        value = raw_value = message.value()
        if not route.raw:
            item.started_s = 0.0  # the deadline is that of the handler: a codec may wait for a schema registry
            try:
                if headers and route.with_schemas:
                    key = decoded(route.key, raw_key, header_in(route.key, headers, KEY_HEADER))
                    value = decoded(route.value, raw_value, header_in(route.value, headers, VALUE_HEADER))
                else:
                    key, value = route.key.decode(raw_key), route.value.decode(raw_value)
            except DecodeError as error:
                return Failure(FailureKind.UNDECODABLE, type(error).__name__, str(error))
            except (SchemaSourceUnavailable, LookUpWaits):
                raise
            except BaseException as error:  # noqa: BLE001 - an error in the codec: redelivered
                kind = FailureKind.CRITICAL if isinstance(error, CRITICAL) else FailureKind.RAISED
                return Failure(kind, type(error).__name__, str(error))
            item.started_s = monotonic_s()
        address, partition, offset, timestamp_ms = origin
        return Record(address, partition, offset, key, value, raw_key, raw_value, headers, timestamp_ms)

    def encoded(self, outputs: Sequence[Output]) -> list[ProducerRecord]:
        """Encode what a handler has emitted for a record. Raises whatever an encoder raises."""
        return [as_producer_record(output, self._outputs.get(output.topic), self._topics) for output in outputs]

    def _judged(self, failure: Failure, delivery: DeliveredRecord | None) -> Failure:
        """Return a failure as that of the record, or of something that is away.

        A record that its handler has acknowledged is finished.
        """
        if failure.kind is FailureKind.DEADLINE:
            failure = self._handler.dependencies.of_missed_deadline(failure)
        if delivery is not None and failure.kind is FailureKind.UNAVAILABLE:
            if delivery.disposition is Disposition.ACKNOWLEDGED:
                return failure._replace(kind=FailureKind.RAISED)
            return failure._replace(key_only=False)  # no record waits in place in these modes
        return failure

    def _hold_for(self, item: WorkItem, failure: Failure, before: float, delivery: DeliveredRecord | None) -> None:
        """Return the item, because a dependency is away; ``before``: when the call began."""
        met = MetOutage(failure, before, item.lineages[item.position :])
        self._hold(item, failure.message or failure.exception, delivery)
        if failure.dependency:
            item.outage = met

    def _hold(self, item: WorkItem, cause: str, delivery: DeliveredRecord | None) -> None:
        """Return the item, because something outside the current record does not answer. No delivery is counted."""
        if self._sessions is not None and delivery is not None:
            self._sessions.take_back(item, delivery)
        item.hold(cause)

    async def _store_later(
        self, item: WorkItem, context: Context, before: float, delivery: DeliveredRecord | None
    ) -> float | None:
        """Store the outcome of a record without a failure, after the look-ups that its outputs need."""
        while True:
            await self._ask(partial(self.encoded, context.outputs), item, delivery)
            with suppress(LookUpWaits):
                return self._store_outcome(item, None, context, before, delivery)

    def _store_outcome(
        self,
        item: WorkItem,
        failure: Failure | None,
        context: Context | None,
        before: float,
        delivery: DeliveredRecord | None,
    ) -> float | None:
        """Store the outcome of the current record, which was started at ``before`` (monotonic).

        Returns:
            The start time of the next record. ``None`` ends the item: the polling thread has abandoned it, so that the
            outcome is ignored, or the failure is critical, or later records may have to wait for this one, or it has no
            outcome because its outputs cannot be encoded or checked at present.

        Raises:
            LookUpWaits: its outputs need a look-up. Nothing is stored yet.
        """
        produced: list[ProducerRecord] | None = None
        if context is not None and context.outputs and failure is None:
            item.started_s = 0.0  # the handler has returned
            try:
                produced = self.encoded(context.outputs)
            except LookUpWaits:
                raise
            except (SchemaSourceUnavailable, TransportError) as error:
                self._hold(item, str(error), delivery)
                return None
            except BaseException as error:  # noqa: BLE001 - an output that cannot be written fails its record
                failure = self._handler.not_encoded(error)
        if item.abandoned:
            return None
        if failure is not None:
            item.failures.append((item.position, failure))
        elif produced is not None:
            item.outputs.append((item.position, produced))
        after = monotonic_s()
        item.seconds.append(after - before)
        item.started_s = after
        item.position += 1  # must be last: it publishes the results above (see WorkItem)
        ends = failure is not None and (self._blocking or failure.kind in _ENDS)
        return None if ends else after


def _expired(expiration_ms: int) -> Failure:
    return Failure(FailureKind.EXPIRED, "Expired", f"JMSExpiration was {expiration_ms}")


def _exhausted(deliveries: int) -> Failure:
    return Failure(FailureKind.EXHAUSTED, "Exhausted", f"delivered {deliveries} times")


def recover_task(item: WorkItem, error: BaseException) -> None:
    """Let a task go on with the next record after its handler has raised."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()  # the handler has cancelled the task that it runs in
    if isinstance(error, GeneratorExit):
        item.stop = True  # the coroutine may be closed because its loop has ended; it must not await anything
