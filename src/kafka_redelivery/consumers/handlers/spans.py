"""A span for each attempt: a call of the handler, with links to the record's producer and to the attempt before.

The span is a child of the producer's, so that a trace shows the whole life of a record; the conventions allow that for
calls with one record. A record without a producer's span continues the trace of its first attempt. A batch of several
begins a trace of its own. The links are there in each case.

A process without traces does not import this module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from traceback import format_exception
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from opentelemetry import propagate, trace
from opentelemetry.context import Context as SpanContext
from opentelemetry.context import attach, detach
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.frames import text_of
from kafka_redelivery.consumers.handlers.handler import Handler, not_run
from kafka_redelivery.consumers.handlers.record import Context, Output, Record
from kafka_redelivery.consumers.telemetry import messaging_conventions as names
from kafka_redelivery.consumers.telemetry.exemplars import note_call
from kafka_redelivery.consumers.telemetry.logs import say_span
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.wire.headers import LAST_ATTEMPT, TRACEPARENT, HeaderList, Headers

_tracer: Final = trace.get_tracer("kafka_redelivery", version("kafka-redelivery"), schema_url=names.SCHEMA_URL)
_w3c: Final = TraceContextTextMapPropagator()

_BAGGAGE: Final = "baggage"
"""A header of W3C that is of no trace: a handler that sets it wants the trace all the same."""

_NONE: Final[Mapping[str, SpanContext]] = {}

_log = logging.getLogger(__name__)
_logged: Final[set[type[Exception]]] = set()

_last_call: ContextVar[Call | None] = ContextVar("last_call", default=None)
"""The last call in this thread or task: that of the failure, if the call has failed."""


class Delivered(NamedTuple):
    """What a span says about a record, and where its links lead."""

    message_id: str
    topic: str
    partition: int
    offset: int
    key: bytes | None
    tombstone: bool
    headers: Headers
    deliveries: int

    @classmethod
    def of(cls, record: Record, deliveries: int) -> Self:
        """Return what a span says about a record of a handler, after so many deliveries."""
        place = record.topic, record.partition, record.offset
        tombstone = record.raw_value is None
        return cls(record.message_id, *place, record.raw_key, tombstone, record.raw_headers, deliveries)


class Call:
    """A call of the handler as a span, which is current while the block runs."""

    def __init__(
        self, delivered: Sequence[Delivered], group: str, *, batch: bool = False, with_texts: bool = True
    ) -> None:
        """Prepare.

        Args:
            delivered: the records of the call, all of one source; not empty.
            group: the consumer group.
            batch: whether the handler takes batches.
            with_texts: whether keys and texts of exceptions may be written down.
        """
        self._delivered, self._group, self._batch, self._with_texts = delivered, group, batch, with_texts
        self._began_s = 0.0
        self._span: Span = trace.INVALID_SPAN
        self.context = SpanContext()
        """The span, and the baggage of the producer."""

        self._token: Any = None
        self._failed = 0
        self._emitted = False
        """Whether records were emitted that may not be encoded yet, so that the span has not ended with the block."""

    def __enter__(self) -> Self:
        with _no_failure_of_the_record():
            self._begin()
        _last_call.set(self)
        self._token = attach(self.context)
        return self

    def _begin(self) -> None:
        first, single = self._delivered[0], len(self._delivered) == 1
        parent, links = SpanContext(), []
        for each in self._delivered:
            if not each.headers:
                continue
            producer, before = _contexts(each.headers)
            about: dict[str, AttributeValue] = (
                {} if single else {names.MESSAGE_ID: each.message_id, names.OFFSET: each.offset}
            )
            found = {
                kind: linked
                for kind, context in ((names.PRODUCER, producer), (names.LAST_ATTEMPT, before))
                if (linked := trace.get_current_span(context).get_span_context()).is_valid
            }
            links += [Link(linked, {names.LINK: kind, **about}) for kind, linked in found.items()]
            if single:
                alone = names.PRODUCER not in found
                parent = trace.set_span_in_context(trace.get_current_span(before), producer) if alone else producer
        attributes = self._attributes(first, single=single)
        self._began_s = monotonic_s()
        self._span = _tracer.start_span(f"{names.PROCESS} {first.topic}", parent, SpanKind.CONSUMER, attributes, links)
        self.context = trace.set_span_in_context(self._span, parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        detach(self._token)
        context = self._span.get_span_context()
        if context.trace_flags.sampled:
            ids = format_trace_id(context.trace_id), format_span_id(context.span_id)
            note_call(self._group, monotonic_s() - self._began_s, *ids)
        with _no_failure_of_the_record():
            if error is not None:
                self._say(error)
            if not self._emitted:
                self._span.end()

    def failed(self, number: int) -> None:
        """Say that so many more records of the batch have failed; the call has not."""
        self._failed += number
        if number:
            with _no_failure_of_the_record():
                self._span.set_attribute(names.FAILED, self._failed)

    def returned(self, result: object) -> None:
        """Say that a call has failed which has returned what has not run."""
        if result is not None and (failure := not_run(result)) is not None:
            with _no_failure_of_the_record():
                self._fail(failure.exception, failure.message)

    def not_encoded(self, error: BaseException) -> None:
        """Say that what was emitted for a record cannot be encoded. Does nothing once the span has ended."""
        if self._batch:
            self.failed(1)
        else:
            with _no_failure_of_the_record():
                self._say(error)

    def settled(self) -> None:
        """End the span of a call that has emitted records, if it has not ended yet."""
        if self._emitted:
            self._emitted = False
            with _no_failure_of_the_record():
                self._span.end()

    def onto(self, outputs: list[Output]) -> None:
        """Let records that the handler emits continue the trace, unless it has given them headers of a trace.

        The span then ends with :meth:`settled`. Called at the end of the block.
        """
        if not outputs:
            return
        self._emitted = True
        carrier: dict[str, str] = {}
        names_of_traces: AbstractSet[str] = frozenset()
        pairs: HeaderList = []
        with _no_failure_of_the_record():
            names_of_traces = propagate.get_global_textmap().fields - {_BAGGAGE}
            propagate.inject(carrier, self.context)
            pairs = [(name, value.encode()) for name, value in carrier.items()]
        for index, output in enumerate(outputs):
            own = [pair for pair in output.headers if pair[0] != LAST_ATTEMPT]
            given = {name for name, _ in own}
            traced = not given.isdisjoint(names_of_traces)
            if not traced or len(own) != len(output.headers):
                more = () if traced else (pair for pair in pairs if pair[0] not in given)
                outputs[index] = replace(output, headers=[*own, *more])

    def _attributes(self, first: Delivered, *, single: bool) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {
            names.SYSTEM: names.KAFKA,
            names.OPERATION: names.PROCESS,
            names.OPERATION_TYPE: names.PROCESS,
            names.DESTINATION: first.topic,
            names.GROUP: self._group,
        }
        if all(each.partition == first.partition for each in self._delivered):
            found[names.PARTITION] = str(first.partition)
        if self._batch:
            found[names.BATCH_SIZE] = len(self._delivered)
        if single:
            found |= {
                names.MESSAGE_ID: first.message_id,
                names.OFFSET: first.offset,
                names.ATTEMPT: first.deliveries + 1,
            }
            key = _text(first.key) if self._with_texts else None
            if key is not None:
                found[names.KEY] = key
            if first.tombstone:
                found[names.TOMBSTONE] = True
        return found

    def _say(self, error: BaseException) -> None:
        failure = getattr(error, "failure", None)  # of a call in a child process
        if isinstance(failure, Failure):
            self._fail(failure.exception, failure.message)
        else:
            self._fail(type(error).__qualname__, text_of(error), "".join(format_exception(error)))

    def _fail(self, kind: str, text: str, frames: str = "") -> None:
        self._span.set_attribute(names.ERROR_TYPE, kind)
        self._span.set_status(StatusCode.ERROR, _encodable(text) if self._with_texts else None)
        if self._with_texts:
            event = {"exception.type": kind, "exception.message": text, "exception.stacktrace": frames}
            self._span.add_event("exception", {name: _encodable(each) for name, each in event.items() if each})


@contextmanager
def _no_failure_of_the_record() -> Iterator[None]:
    """Let no sampler, processor or propagator of the program decide about a record. Each exception is logged once."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever a program has set up
        kind = type(error)
        if kind not in _logged:
            _logged.add(kind)
            error.__context__ = None  # the handler's exception, whose text may not be for the log
            _log.warning("OpenTelemetry has failed; the record is handled without its span", exc_info=error)


def _encodable(text: str) -> str:
    """Return a text that the exporter can encode: one lone surrogate would lose all spans that are sent with it."""
    return text.encode(errors="replace").decode()


def _contexts(headers: Headers) -> tuple[SpanContext, SpanContext]:
    """Return the context that the producer has sent along, with its baggage, and that of the attempt before."""
    found = {name: value.decode(errors="replace") for name, value in headers if value is not None}
    last = found.get(LAST_ATTEMPT)
    before = SpanContext() if last is None else _w3c.extract({TRACEPARENT: last}, SpanContext())
    return propagate.extract(found, SpanContext()), before


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None


def _without_ours(headers: Headers) -> Headers | None:
    """Return a record's headers without that of the attempt before; ``None`` if it has none."""
    found: HeaderList = [pair for pair in headers if pair[0] != LAST_ATTEMPT]
    return None if len(found) == len(headers) else found


@dataclass(frozen=True)
class TracedHandler(Handler):
    """A handler each call of which is a span. What its calls have failed with says which span it was."""

    inner: Handler = field(kw_only=True)
    running: Mapping[str, SpanContext] = field(kw_only=True, compare=False, repr=False)
    """The spans of the synchronous calls that have not returned, by the message ids of their records."""

    def failure(self, error: BaseException) -> Failure:
        """See :class:`Handler`."""
        call = _last_call.get()
        if call is None:  # before a call
            return self.inner.failure(error)
        token = attach(call.context)  # the exception may be logged
        try:
            failure = self.inner.failure(error)
        finally:
            detach(token)
        return failure._replace(span=traceparent(call.context))

    def not_encoded(self, error: BaseException) -> Failure:
        """See :class:`Handler`."""
        call = _last_call.get()
        if call is not None:
            call.not_encoded(error)
        return self.failure(error)

    def settled(self) -> None:
        """See :class:`Handler`."""
        call = _last_call.get()
        if call is not None:
            call.settled()

    def missed(self, deadline_s: float | None, message_id: str = "") -> Failure:
        """See :class:`Handler`."""
        call = _last_call.get()
        context = self.running.get(message_id) or (SpanContext() if call is None else call.context)
        return self.inner.missed(deadline_s)._replace(span=traceparent(context))

    def convert_value(self, record: Record) -> None:
        """See :class:`Handler`. The call has not begun."""
        _last_call.set(None)
        super().convert_value(record)


def with_spans(handler: Handler) -> Handler:
    """Return a handler each call of which is a span."""
    running: dict[str, SpanContext] = {}
    call = _batch_calls(handler) if handler.batch else _record_calls(handler, running)
    return replace(with_failed_spans(handler, running), call=call, takes_context=not handler.batch)


def with_failed_spans(handler: Handler, running: Mapping[str, SpanContext] = _NONE) -> TracedHandler:
    """Return a handler whose failures say which span they were, for a caller that opens the spans."""
    values = {each.name: getattr(handler, each.name) for each in fields(Handler)}
    return TracedHandler(**values, inner=handler, running=running)


def _record_calls(handler: Handler, running: dict[str, SpanContext]) -> Callable[[Record, Context], Any]:
    inner, with_texts = handler.call, not handler.details.class_only

    def begun(record: Record, context: Context) -> tuple[Call, tuple[Any, ...]]:
        delivered = Delivered.of(record, context.deliveries)
        users = _without_ours(record.raw_headers)
        if users is not None:
            record = copy(record)  # it may be handled again
            record.raw_headers = users
            context.record = record
        arguments = (record, context) if handler.takes_context else (record,)
        return Call((delivered,), context.group, with_texts=with_texts), arguments

    def call(record: Record, context: Context) -> object:
        span, arguments = begun(record, context)
        with span:
            running[record.message_id] = span.context
            try:
                result = inner(*arguments)
            finally:
                if running.get(record.message_id) is span.context:  # else that of its redelivery, after a deadline
                    running.pop(record.message_id, None)
            span.returned(result)
            span.onto(context.outputs)
        return result

    async def call_asynchronously(record: Record, context: Context) -> object:
        span, arguments = begun(record, context)
        with span:
            result = await inner(*arguments)
            span.returned(result)
            span.onto(context.outputs)
        return result

    return call_asynchronously if handler.asynchronous else call


def _batch_calls(handler: Handler) -> Callable[[Batch], Any]:
    inner, with_texts = handler.call, not handler.details.class_only

    def begun(batch: Batch) -> Call:
        delivered = [Delivered.of(record, batch.context(record).deliveries) for record in batch]
        for record in batch:
            users = _without_ours(record.raw_headers)
            if users is not None:
                record.raw_headers = users
        return Call(delivered, batch.context(batch[0]).group, batch=True, with_texts=with_texts)

    def ended(span: Call, batch: Batch, result: object) -> None:
        span.returned(result)
        span.failed(len(batch.errors))
        for context in batch.contexts.values():
            span.onto(context.outputs)

    def call(batch: Batch) -> object:
        with begun(batch) as span:
            result = inner(batch)
            ended(span, batch, result)
        return result

    async def call_asynchronously(batch: Batch) -> object:
        with begun(batch) as span:
            result = await inner(batch)
            ended(span, batch, result)
        return result

    return call_asynchronously if handler.asynchronous else call


def traceparent(context: SpanContext) -> str:
    """Return the span of a context in the form of W3C; empty if it is not exported."""
    found = trace.get_current_span(context).get_span_context()
    if not (found.is_valid and found.trace_flags.sampled):
        return ""
    return f"00-{format_trace_id(found.trace_id)}-{format_span_id(found.span_id)}-{found.trace_flags:02x}"


def current_carrier() -> Mapping[str, str]:
    """Return what another process needs to continue the current span."""
    carrier: dict[str, str] = {}
    with _no_failure_of_the_record():
        propagate.inject(carrier)
    return carrier


@contextmanager
def continued(carrier: Mapping[str, str]) -> Iterator[None]:
    """Continue the span of another process while the block runs."""
    context = SpanContext()
    with _no_failure_of_the_record():
        context = propagate.extract(carrier, context)
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def _current() -> dict[str, str]:
    """Return what a line of the log says about the span in which it is written."""
    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return {}
    return {"trace_id": format_trace_id(found.trace_id), "span_id": format_span_id(found.span_id)}


say_span(_current)
