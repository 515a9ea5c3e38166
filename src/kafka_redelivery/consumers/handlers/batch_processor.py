"""Handles the records of a work item with a batch handler: in one call, or as batches of one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import NamedTuple, cast, overload

from kafka_redelivery.consumers.clock import Clock, monotonic_s
from kafka_redelivery.consumers.errors import HandlerUnavailable
from kafka_redelivery.consumers.flow.session import Session
from kafka_redelivery.consumers.flow.work_item import MetOutage, WorkItem
from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.handler import Handler, not_run
from kafka_redelivery.consumers.handlers.processor import PROGRAM_ENDS, CallDeadline, Processor, recover_task
from kafka_redelivery.consumers.handlers.record import Context, Output, Record
from kafka_redelivery.consumers.handlers.slot_sessions import SlotSessions
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.serdes.errors import LookUpWaits, SchemaSourceUnavailable
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.clients.message_headers import none_has_headers
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Message, Partition, TopicMetadata


def of_single_records(handler: Handler) -> Handler:
    """Return a batch handler as one that takes a record and its context: it is called with batches of one."""
    call = handler.call

    def batch_of(record: Record, context: Context) -> Batch:
        handler.convert_value(record)
        batch: Batch = Batch((record,))
        batch.contexts[0] = context
        return batch

    def one(record: Record, context: Context) -> object:
        batch = batch_of(record, context)
        result = call(batch)
        if batch.errors:
            raise batch.errors[0]
        return result

    async def one_asynchronously(record: Record, context: Context) -> object:
        batch = batch_of(record, context)
        result = await call(batch)
        if batch.errors:
            raise batch.errors[0]
        return result

    return replace(handler, call=one_asynchronously if handler.asynchronous else one, takes_context=True, batch=False)


class _PlainRecords(Sequence[Record]):
    """Records without headers whose keys and values are not decoded. They are made when the handler looks at them."""

    def __init__(self, partition: Partition, messages: Sequence[Message]) -> None:
        self._partition = partition
        self._messages = messages
        self._made: list[Record] = []

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._all())

    def _all(self) -> list[Record]:
        if not self._made:
            topic, number = self._partition
            self._made = [
                Record(
                    topic,
                    number,
                    each.offset(),
                    key := each.key(),
                    value := each.value(),
                    key,
                    value,
                    [],
                    each.timestamp()[1],
                )
                for each in self._messages
            ]
        return self._made


class _Prepared(NamedTuple):
    """The records of a work item, before their batch is handled."""

    records: Sequence[Record]
    places: Sequence[int]
    """Index of each record in its work item."""

    failures: dict[int, Failure]
    """Failures of the others, which the handler does not get, by index in the work item."""

    end: int
    """Index after the last record that has been prepared."""

    held: str
    """Why the record at ``end`` could not be prepared; empty if all were."""


class BatchProcessor(Processor):
    """Handles a work item that is a :attr:`~WorkItem.batch` in one call. The records of others are batches of one.

    A call that raises, or exceeds the deadline, decides about no record. The item is then no batch any more, and its
    records are handled again one by one. None of that is counted.
    """

    def __init__(
        self,
        handler: Handler,
        outputs: Mapping[str, tuple[Codec, Codec]],
        clock: Clock,
        deadline: timedelta | None,
        topics: TopicMetadata | None = None,
        *,
        blocking: bool = False,
    ) -> None:
        """Prepare. See :class:`Processor`."""
        super().__init__(of_single_records(handler), outputs, clock, deadline, topics, blocking=blocking)
        self._batch_handler = handler

    async def _run(self, item: WorkItem, session: Session | None) -> None:
        await (self._run_batch(item) if item.batch else super()._run(item, session))

    async def _run_batch(self, item: WorkItem) -> None:
        if item.stop:
            return
        prepared = self._prepare_all(item)
        if item.stop:  # decoding may have waited for a registry, and the partition may have been given away
            item.forget_prepared()
            return
        before = monotonic_s()
        batch: Batch = Batch(prepared.records, _deliveries(item, prepared.places), item.lane.assigned.route.group)
        try:
            if prepared.records and not await self._call(item, batch, prepared):
                return
            while unknown := self._store_outcomes(item, batch, prepared, before):
                await self._ask(partial(self.encoded, unknown), item)
        finally:
            self._batch_handler.settled()

    def _prepare_all(self, item: WorkItem) -> _Prepared:
        assigned, messages = item.lane.assigned, item.messages
        plain = assigned.route.plain and self._batch_handler.value is None and not assigned.redelivered
        if plain and none_has_headers(messages):
            unmade = _PlainRecords(assigned.partition, messages)
            return _Prepared(unmade, range(len(messages)), {}, len(messages), "")
        records: list[Record] = []
        places: list[int] = []
        failures: dict[int, Failure] = {}
        for index, message in enumerate(messages):
            try:
                record = self.prepare(item, message)
            except SchemaSourceUnavailable as error:
                return _Prepared(records, places, failures, index, str(error))
            failure = record if isinstance(record, Failure) else self._batch_handler.convert(record)
            if failure is None:
                records.append(cast("Record", record))
                places.append(index)
            else:
                failures[index] = failure
                if failure.kind is FailureKind.CRITICAL:
                    return _Prepared(records, places, failures, index + 1, "")
        return _Prepared(records, places, failures, len(messages), "")

    async def _call(self, item: WorkItem, batch: Batch, prepared: _Prepared) -> bool:
        """Call the handler, and return whether the outcomes of the records can be stored."""
        handler = self._batch_handler
        deadline = CallDeadline(self._deadline_s, handler.loop.seconds_ago) if handler.asynchronous else None
        before = item.started_s = monotonic_s()
        try:
            result = handler.call(batch)
            if deadline is not None:
                async with deadline:
                    result = await result
        except BaseException as error:  # noqa: BLE001 - as in Processor
            if self._decides_nothing(item, error):
                return False
            expired = deadline is not None and deadline.expired()
            failure: Failure | None = handler.missed(self._deadline_s) if expired else handler.failure(error)
        else:
            failure = None if result is None else not_run(result)
        item.started_s = 0.0
        if item.abandoned:
            return False
        item.seconds.append(monotonic_s() - before)
        if failure is not None and failure.kind is FailureKind.DEADLINE:
            failure = handler.dependencies.of_missed_deadline(failure)
        if failure is not None and failure.kind is FailureKind.UNAVAILABLE:
            self._hold_for(item, failure, before, None)
            return False
        if failure is not None and len(batch) > 1:
            item.handle_one_by_one()
            return False
        if failure is not None:
            prepared.failures[prepared.places[0]] = failure
        return True

    def _decides_nothing(self, item: WorkItem, error: BaseException) -> bool:
        """Whether the batch is given back as it is after a call that raised: something outside it is the cause."""
        handler = self._batch_handler
        if isinstance(error, HandlerUnavailable):
            item.hold("" if item.withdrawn else str(error))
            return True
        if not handler.asynchronous:
            return False
        if item.abandoned:
            return True
        if handler.loop.ending and isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            item.hold(PROGRAM_ENDS)
            return True
        recover_task(item, error)
        return False

    def _store_outcomes(  # noqa: C901 - one case after the other
        self, item: WorkItem, batch: Batch, prepared: _Prepared, before: float
    ) -> Sequence[Output]:
        """Store the outcomes of all records; or nothing yet, and return the outputs that need a look-up."""
        failures, end, held = prepared.failures, prepared.end, prepared.held
        places, handler = prepared.places, self._batch_handler
        for number, error in batch.errors.items():
            if places[number] not in failures:  # a failure is logged when it is made
                failures[places[number]] = handler.failure(error)
        outputs = []
        for number in sorted(batch.contexts):
            place = places[number]
            emitted = batch.contexts[number].outputs
            if not emitted or place in failures:
                continue
            try:
                outputs.append((place, self.encoded(emitted)))
            except LookUpWaits:
                return emitted
            except (SchemaSourceUnavailable, TransportError) as error:
                end, held = place, str(error)
                break
            except BaseException as error:  # noqa: BLE001 - an output that cannot be written fails its record
                failures[place] = handler.not_encoded(error)
        for place in sorted(failures):
            failure = failures[place]
            if place >= end:
                break
            if failure.kind is FailureKind.UNAVAILABLE and not failure.key_only:
                end, held = place, failure.message or failure.exception  # the records behind it are handled again, too
                item.outage = (
                    MetOutage(failure, before, item.lineages[place : place + 1]) if failure.dependency else None
                )
                break
            item.failures.append((place, failure))
            if failure.kind is FailureKind.CRITICAL:
                end, held = place + 1, ""
        item.outputs += [each for each in outputs if each[0] < end]
        item.position = end  # must be last: it publishes the results above (see WorkItem)
        item.forget_prepared()
        item.held = held
        return ()


def processor_of(
    handler: Handler,
    outputs: Mapping[str, tuple[Codec, Codec]],
    clock: Clock,
    deadline: timedelta | None,
    topics: TopicMetadata | None = None,
    *,
    blocking: bool = False,
    sessions: SlotSessions | None = None,
) -> Processor:
    """Return what handles the work items of a handler. See :class:`Processor`; a batch handler has no sessions."""
    if handler.batch:
        return BatchProcessor(handler, outputs, clock, deadline, topics, blocking=blocking)
    return Processor(handler, outputs, clock, deadline, topics, blocking=blocking, sessions=sessions)


def _deliveries(item: WorkItem, places: Sequence[int]) -> list[int]:
    lineages = item.lineages
    return [lineages[place].deliveries for place in places] if lineages else []
