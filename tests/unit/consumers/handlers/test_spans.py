"""Each attempt is a span with links to the record's producer and to the attempt before, whatever runs the handler."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context as NoSpan
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Event, Thread
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanKind, StatusCode
from pydantic import AfterValidator

from kafka_redelivery import Batch, Context, Record
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers import spans as module
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.handler import Handler, as_handler
from kafka_redelivery.consumers.handlers.spans import TracedHandler, continued, current_carrier, with_spans
from kafka_redelivery.consumers.telemetry import messaging_conventions as names
from kafka_redelivery.consumers.telemetry.exemplars import TRACED_CALLS
from kafka_redelivery.consumers.telemetry.logs import JsonFormatter
from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureDetails, Reason
from kafka_redelivery.topology.wire.headers import (
    LAST_ATTEMPT,
    HeaderList,
    Headers,
    dead_letter_headers,
    ready_headers,
    redriven_headers,
    users_own,
)
from tests.unit.consumers.failing_handlers import UnprintableError, raising
from tests.unit.consumers.records import NOW, Fetched, item, lineage, ready, record, route, source, waiting_headers

pytestmark = pytest.mark.usefixtures("one_slice")

PRODUCERS_TRACE, PRODUCERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PRODUCER: HeaderList = [
    ("traceparent", f"00-{PRODUCERS_TRACE}-{PRODUCERS_SPAN}-01".encode()),
    ("tracestate", b"shop=7"),
]

IN_GROUP = replace(route(), group="billing")


class Exported:
    """The spans that have ended."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("tests")

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    @property
    def only(self) -> ReadableSpan:
        [span] = self.all
        return span


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    """Export the spans of the test to memory, without a provider for all others."""
    found = Exported()
    monkeypatch.setattr(module, "_tracer", found.tracer)
    yield found
    TRACED_CALLS.clear()


def run(
    handler: Callable[..., Any],
    *messages: Fetched,
    of: AssignedPartition | None = None,
    batch: bool = False,
    deadline: timedelta | None = None,
    changed: Callable[[Handler], Handler] = lambda handler: handler,
) -> WorkItem:
    """Handle records of one partition and return their work item."""
    given = item(source() if of is None else of, messages)
    given.batch = batch
    loaded = with_spans(changed(as_handler(handler)))
    processor = processor_of(loaded, {}, lambda: NOW, deadline)
    if loaded.asynchronous:
        asyncio.run(processor.run_async(given))
    else:
        processor.run(given)
    return given


def failures(given: WorkItem) -> Mapping[int, Failure]:
    """The failures of a work item."""
    return dict(given.failures)


def traceparent(span: ReadableSpan) -> str:
    """The header that names a span."""
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def links(span: ReadableSpan) -> dict[object, str]:
    """The spans that a span is linked to, by kind."""
    return {(each.attributes or {})[names.LINK]: f"{each.context.span_id:016x}" for each in span.links}


def span_id(span: ReadableSpan) -> str:
    """The id of a span."""
    return traceparent(span).split("-")[2]


@dataclass
class Order:
    """A value."""

    amount: int


class Broken:
    """A tracer and a propagator that a program has set up, and that raise."""

    fields = frozenset({"traceparent"})

    def start_span(self, *_: object, **__: object) -> None:
        """See a tracer."""
        raise RuntimeError("no such sampler")

    def extract(self, *_: object, **__: object) -> None:
        """See a propagator."""
        raise RuntimeError("no such header")

    inject = extract


def refuse(_: Record) -> None:
    """Fail."""
    raise ValueError("no card")


async def refuse_later(_: Record) -> None:
    """Fail on an event loop."""
    await asyncio.sleep(0)
    raise ValueError("no card")


def refuse_all(batch: Batch) -> None:
    """Fail each record of a batch."""
    for each in batch:
        batch.fail(each, ValueError("no card"))


def again(origin_offset: int, deliveries: int, own: Headers) -> Fetched:
    """The ready record after so many deliveries."""
    headers = ready_headers(waiting_headers(lineage(origin_offset, deliveries=deliveries), own=own))
    return Fetched("billing.ready.orders", 5, 90 + deliveries, None, b"value", headers, NOW)


def test_what_a_span_says(exported: Exported) -> None:
    """The messaging conventions: name, kind, and attributes of one record."""
    run(lambda _: None, record(4, b"v", key=b"k7", partition=0), of=source(IN_GROUP))
    assert exported.only.name == "process orders"
    assert exported.only.kind is SpanKind.CONSUMER
    assert dict(exported.only.attributes or {}) == {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "billing",
        "messaging.message.id": "orders-0@4",
        "kafka.offset": 4,
        "kafka.message.key": "k7",
        "kafka_redelivery.attempt": 1,
    }
    assert exported.only.status.status_code is StatusCode.UNSET
    assert (exported.only.parent, exported.only.links) == (None, ())


@pytest.mark.parametrize("handler", [refuse, refuse_later], ids=["thread", "loop"])
@pytest.mark.parametrize("own", [PRODUCER, []], ids=["with a producer", "without"])
def test_the_life_of_a_record_is_one_linked_trace(
    exported: Exported, handler: Callable[..., Any], own: HeaderList
) -> None:
    """Three attempts, death, redrive, success: each linked to the one before and to the producer."""
    given = run(handler, record(42, headers=own, partition=5), of=source(partition=5))
    for deliveries in (1, 2):
        before = (LAST_ATTEMPT, failures(given)[0].span.encode())
        found = again(42, deliveries, [*own, before])
        given = run(handler, found, of=ready(partition=5))
    origin = lineage(42, deliveries=3)
    decision = DeadLetter(Reason.REDELIVERIES_EXCEEDED, failures(given)[0])
    died = dead_letter_headers(origin, "billing", found.pairs or (), decision, NOW)
    sent = redriven_headers(died, origin._replace(redrive="0a/0@1/1", deliveries=0), "billing")
    run(lambda _: None, Fetched("billing.ready.orders", 5, 99, None, b"value", sent, NOW), of=ready(partition=5))

    first, *others = exported.all
    assert len(others) == 3
    assert {traceparent(each).split("-")[1] for each in exported.all} == (
        {PRODUCERS_TRACE} if own else {traceparent(first).split("-")[1]}
    )
    producer = {names.PRODUCER: PRODUCERS_SPAN} if own else {}
    assert links(first) == producer
    for earlier, span in zip(exported.all, others, strict=False):
        assert links(span) == {names.LAST_ATTEMPT: span_id(earlier), **producer}
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" == (PRODUCERS_SPAN if own else span_id(earlier))
    assert [(each.attributes or {})[names.ATTEMPT] for each in exported.all] == [1, 2, 3, 1]
    assert [each.status.status_code for each in exported.all] == [*[StatusCode.ERROR] * 3, StatusCode.UNSET]
    assert users_own(sent)[: len(own)] == own, "the producer's headers are never replaced"
    assert [name for name, _ in sent].count(LAST_ATTEMPT) == 1


def test_a_failure_names_its_span(exported: Exported) -> None:
    """And the span says what was raised."""
    given = run(refuse, record(4))
    assert failures(given)[0].span == traceparent(exported.only)
    assert (exported.only.attributes or {})["error.type"] == "ValueError"
    assert exported.only.status.description == "no card"
    [event] = exported.only.events
    assert (event.attributes or {})["exception.message"] == "no card"


def test_what_cannot_be_printed_or_encoded(exported: Exported, caplog: pytest.LogCaptureFixture) -> None:
    """The span says what it can: one text that cannot be encoded would lose all spans that are exported with it."""
    caplog.set_level("CRITICAL")  # processes of pytest could not hand over the lines of the log
    given = run(raising(UnprintableError()), record(4))
    run(raising(ValueError("\ud800")), record(5))
    unprintable, lone = exported.all
    assert failures(given)[0].exception == "UnprintableError"
    assert (unprintable.attributes or {})["error.type"] == "UnprintableError"
    assert lone.status.description == "?"


def test_class_only_writes_neither_key_nor_text(exported: Exported) -> None:
    """As in the log: they may have personal data."""
    run(refuse, record(4, key=b"k"), changed=lambda handler: replace(handler, details=FailureDetails.CLASS_ONLY))
    assert names.KEY not in (exported.only.attributes or {})
    assert (exported.only.events, exported.only.status.description) == ((), None)
    assert (exported.only.attributes or {})["error.type"] == "ValueError"


def test_the_users_spans_are_its_children_and_outputs_continue_it(exported: Exported) -> None:
    """An output that has a trace of its own keeps it; our header is on none."""

    def handle(found: Record, context: Context) -> None:
        with exported.tracer.start_as_current_span("charge"):
            context.send("receipts", b"plain", headers=[("a", b"1")])
        context.send("receipts", b"copied", headers=found.raw_headers)
        context.send("receipts", b"own", headers={"traceparent": b"00-1"})
        context.send("receipts", b"tagged", headers={"baggage": b"a=1"})

    before = (LAST_ATTEMPT, f"00-{'ab' * 16}-{'1' * 16}-01".encode())
    given = run(handle, again(42, 1, [*PRODUCER, before]), of=ready(partition=5))
    charge, process = exported.all
    assert charge.parent is not None
    assert f"{charge.parent.span_id:016x}" == span_id(process)
    [(_, outputs)] = given.outputs
    assert [each.headers for each in outputs] == [
        [("a", b"1"), ("traceparent", traceparent(process).encode()), ("tracestate", b"shop=7")],
        PRODUCER,
        [("traceparent", b"00-1")],
        [("baggage", b"a=1"), ("traceparent", traceparent(process).encode()), ("tracestate", b"shop=7")],
    ]


def emit_text(found: Record, context: Context) -> None:
    """Emit what only bytes may be, for the second record; and for the first one what can be written."""
    context.send("log", "text" if found.offset == 2 else b"bytes")


async def emit_text_asynchronously(found: Record, context: Context) -> None:
    """The same."""
    emit_text(found, context)


def emit_text_for_each(batch: Batch) -> None:
    """The same for each record of a batch, the first of which has failed."""
    for each in batch:
        emit_text(each, batch.context(each))
    if len(batch) > 1:
        batch.reject(batch[0], "no")


@pytest.mark.parametrize("handler", [emit_text, emit_text_asynchronously])
def test_an_output_that_cannot_be_encoded_fails_its_span(handler: Callable[..., Any], exported: Exported) -> None:
    """The delivery has failed, though the call has returned."""
    given = run(handler, record(1), record(2), record(3))
    first, second, third = exported.all
    assert [(each, failure.span) for each, failure in failures(given).items()] == [(1, traceparent(second))]
    assert (first.status.status_code, third.status.status_code) == (StatusCode.UNSET, StatusCode.UNSET)
    assert second.status.status_code is StatusCode.ERROR
    assert (second.attributes or {})[names.ERROR_TYPE] == "TypeError"


def test_an_output_of_a_batch_that_cannot_be_encoded_is_counted_in_its_span(exported: Exported) -> None:
    """Beside what the handler has failed itself. So is that of a batch of one."""
    given = run(emit_text_for_each, record(1), record(2), record(3), batch=True)
    assert failures(given).keys() == {0, 1}
    assert (exported.only.attributes or {})[names.FAILED] == 2
    assert failures(given)[1].span == traceparent(exported.only)
    assert failures(run(emit_text_for_each, record(2))).keys() == {0}
    assert (exported.all[1].attributes or {})[names.FAILED] == 1


def test_a_span_with_outputs_ends_also_if_they_are_not_encoded(exported: Exported) -> None:
    """As when the handler returns something that has not run."""

    def handle(_: Record, context: Context) -> object:
        context.send("log", b"bytes")
        return asyncio.sleep(0)

    assert failures(run(handle, record(1)))
    assert exported.only.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_has_not_run_fails_its_span(*, asynchronous: bool, batch: bool, exported: Exported) -> None:
    """A decorator may hide that the handler is asynchronous, or a handler forget to await another one."""

    def handle(_: Any) -> object:  # noqa: ANN401 - a record or a batch
        return asyncio.sleep(0)

    async def handle_asynchronously(_: Any) -> object:  # noqa: ANN401 - the same
        return asyncio.sleep(0)

    handler = handle_asynchronously if asynchronous else handle
    handler.__annotations__["_"] = Batch if batch else Record
    [failure] = failures(run(handler, record(1), batch=batch)).values()
    assert (exported.only.attributes or {})[names.ERROR_TYPE] == failure.exception == "HandlerNotRun"
    assert exported.only.status.description == failure.message


def test_a_handler_does_not_see_our_header(exported: Exported) -> None:
    """Neither one of records nor one of batches."""
    seen: list[Headers] = []
    before = (LAST_ATTEMPT, f"00-{'ab' * 16}-{'1' * 16}-01".encode())

    def handle_batch(batch: Batch) -> None:
        seen.extend(each.raw_headers for each in batch)

    run(lambda found: seen.append(found.raw_headers), again(42, 1, [*PRODUCER, before]), of=ready(partition=5))
    run(handle_batch, again(42, 1, [*PRODUCER, before]), of=ready(partition=5), batch=True)
    assert seen == [PRODUCER, PRODUCER]
    assert [links(each)[names.LAST_ATTEMPT] for each in exported.all] == ["1" * 16] * 2


def test_a_batch_is_one_span_with_links_of_each_record(exported: Exported) -> None:
    """It begins a trace of its own, because its records have several producers; a link names its record."""
    before = (LAST_ATTEMPT, f"00-{'ab' * 16}-{'1' * 16}-01".encode())
    given = run(
        refuse_all, again(42, 1, [*PRODUCER, before]), again(43, 2, PRODUCER), of=ready(partition=5), batch=True
    )
    span = exported.only
    assert span.parent is None
    assert [(dict(each.attributes or {}), f"{each.context.span_id:016x}") for each in span.links] == [
        ({names.LINK: names.PRODUCER, names.MESSAGE_ID: "orders-5@42", names.OFFSET: 42}, PRODUCERS_SPAN),
        ({names.LINK: names.LAST_ATTEMPT, names.MESSAGE_ID: "orders-5@42", names.OFFSET: 42}, "1" * 16),
        ({names.LINK: names.PRODUCER, names.MESSAGE_ID: "orders-5@43", names.OFFSET: 43}, PRODUCERS_SPAN),
    ]
    attributes = span.attributes or {}
    assert (attributes[names.BATCH_SIZE], attributes[names.FAILED]) == (2, 2)
    assert [each.span for each in failures(given).values()] == [traceparent(span)] * 2


def test_a_batch_that_raises_is_handled_one_by_one(exported: Exported) -> None:
    """The span of the call says so; each record then has its own span in the trace of its producer."""

    def handle(batch: Batch) -> None:
        if len(batch) > 1:
            raise ValueError("no record is named")

    given = item(source(), [record(1, headers=PRODUCER), record(2)])
    given.batch = True
    processor = processor_of(with_spans(as_handler(handle)), {}, lambda: NOW, None)
    processor.run(given)
    processor.run(given)
    whole, first, second = exported.all
    assert whole.status.status_code is StatusCode.ERROR
    assert (first.parent is not None, second.parent) == (True, None)
    assert traceparent(first).split("-")[1] == PRODUCERS_TRACE


@pytest.mark.usefixtures("exported")
def test_a_record_that_does_not_fit_has_no_span_of_another_call() -> None:
    """The conversion of a batch comes before its call."""
    assert failures(run(refuse_all, record(1), batch=True))  # leaves the context of its call in this thread
    handler = with_spans(as_handler(refuse_all, value=Order))
    failure = handler.convert(Record("orders", 0, 2, None, "no number", None, b"x", [], 0))
    assert failure is not None
    assert failure.span == ""


def _checked(amount: int) -> int:
    if amount > 1:
        raise KeyError(amount)
    return amount


@dataclass
class CheckedOrder:
    """A value whose type calls code of the user, which may raise anything."""

    amount: Annotated[int, AfterValidator(_checked)]


def test_a_single_record_of_a_batch_handler_that_does_not_fit_has_no_span_of_another_call(exported: Exported) -> None:
    """Its conversion comes before its call, too, whatever it raises."""
    given = run(
        refuse_all,
        record(1, b'{"amount": 1}'),
        record(2, b'{"amount": 2}'),
        of=source(route(value=JsonCodec())),
        changed=lambda handler: as_handler(handler.call, value=CheckedOrder, takes="batch"),
    )
    assert [(each.exception, each.span) for each in failures(given).values()] == [
        ("ValueError", traceparent(exported.only)),
        ("KeyError", ""),
    ]


def test_an_asynchronous_call_that_misses_its_deadline(exported: Exported) -> None:
    """The failure names the span of the cancelled call."""

    async def handle(_: Record) -> None:
        await asyncio.sleep(60)

    given = run(handle, record(4), deadline=timedelta(milliseconds=20))
    assert failures(given)[0].span == traceparent(exported.only)
    assert exported.only.status.status_code is StatusCode.ERROR


def test_a_synchronous_call_that_misses_its_deadline(exported: Exported) -> None:
    """The polling thread asks for the span of the record, before the call has returned."""
    seen: list[Failure] = []

    def handle(found: Record) -> None:
        seen.append(loaded.missed(1.0, found.message_id))

    loaded = with_spans(as_handler(handle))
    processor_of(loaded, {}, lambda: NOW, None).run(item(source(), [record(4)]))
    assert [each.span for each in seen] == [traceparent(exported.only)]
    assert isinstance(loaded, TracedHandler)
    assert not loaded.running


def test_an_abandoned_call_that_returns_leaves_the_span_of_the_redelivery(exported: Exported) -> None:
    """The redelivery may miss its deadline, too."""
    begun, redelivered = Event(), Event()
    seen: list[str] = []

    def handle(found: Record, context: Context) -> None:
        if context.attempt == 1:
            begun.set()
            redelivered.wait(30)
            return
        redelivered.set()
        abandoned.join(30)
        seen.append(NoSpan().run(loaded.missed, 1.0, found.message_id).span)

    def deliver(deliveries: int) -> None:
        found = Record("orders", 0, 7, None, b"v", None, b"v", [], NOW)
        loaded.call(found, Context(deliveries, [], found, "billing"))

    loaded = with_spans(as_handler(handle))
    abandoned = Thread(target=deliver, args=(0,))
    abandoned.start()
    begun.wait(30)
    deliver(1)
    assert seen == [traceparent(exported.all[-1])]
    assert isinstance(loaded, TracedHandler)
    assert not loaded.running


def test_what_is_not_sampled_leaves_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its span is not exported, so that nothing could be linked to it."""
    exported = Exported(ALWAYS_OFF)
    monkeypatch.setattr(module, "_tracer", exported.tracer)
    given = run(refuse, record(4))
    assert failures(given)[0].span == ""
    assert (exported.all, TRACED_CALLS) == ((), {})


def test_damaged_headers_are_no_links(exported: Exported) -> None:
    """A record is handled whatever they say."""
    run(
        lambda _: None, record(4, headers=[("traceparent", b"\xff"), (LAST_ATTEMPT, b"00-0-0-0"), ("tracestate", None)])
    )
    assert (exported.only.parent, exported.only.links) == (None, ())


def test_a_child_process_continues_the_span(exported: Exported) -> None:
    """What it gets is text."""
    with exported.tracer.start_as_current_span("process"):
        carrier = json.loads(json.dumps(current_carrier()))
    with continued(carrier), exported.tracer.start_as_current_span("charge"):
        pass
    process, charge = exported.all
    assert charge.parent is not None
    assert f"{charge.parent.span_id:016x}" == span_id(process)
    assert not trace.get_current_span().get_span_context().is_valid


def test_lines_of_the_log_say_the_trace(exported: Exported) -> None:
    """Those of the handler, and the traceback, which is logged when the call has ended; no line behind it."""
    lines: list[dict[str, Any]] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(self.format(record)))

    collecting = Collecting()
    collecting.setFormatter(JsonFormatter())
    logger, shop = logging.getLogger(), logging.getLogger("shop")
    logger.addHandler(collecting)
    try:

        def handle(_: Record) -> None:
            shop.warning("charged")
            raise ValueError("no card")

        run(handle, record(4))
        shop.warning("outside")
    finally:
        logger.removeHandler(collecting)
    ids = dict(zip(("trace_id", "span_id"), traceparent(exported.only).split("-")[1:3], strict=True))
    assert [{name: line.get(name) for name in ids} for line in lines] == [ids, ids, dict.fromkeys(ids)]


def test_the_histogram_of_calls_has_the_last_trace_as_exemplar(exported: Exported) -> None:
    """By group, so that two services in one program are not mixed."""
    run(lambda _: None, record(4), of=source(IN_GROUP))
    [((group, _), exemplar)] = TRACED_CALLS.items()
    assert group == "billing"
    assert exemplar.labels["trace_id"] == traceparent(exported.only).split("-")[1]
    assert exemplar.value > 0


@pytest.mark.usefixtures("exported")
@pytest.mark.parametrize("broken", ["_tracer", "propagate.extract", "propagate.inject"])
def test_what_a_program_has_set_up_decides_about_no_record(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    """The record is handled, its outputs are written, and the exception is in the log once."""
    monkeypatch.setattr(module, "_logged", set())
    name = broken.rpartition(".")[2]
    target = module if broken == "_tracer" else propagate
    monkeypatch.setattr(target, name, Broken() if broken == "_tracer" else getattr(Broken(), name))

    def handle(_: Record, context: Context) -> None:
        context.send("receipts", b"paid")

    source_of_all = source()
    for offset in range(2):
        given = run(handle, record(offset=offset, headers=PRODUCER), of=source_of_all)
        assert not failures(given)
        [(_, outputs)] = given.outputs
        assert [output.value for output in outputs] == [b"paid"]
    assert len([each for each in caplog.records if "OpenTelemetry has failed" in each.message]) == 1


def test_the_text_of_an_exception_is_not_in_the_log_of_one_of_opentelemetry(
    exported: Exported, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be what `failureDetails: class-only` keeps out."""
    monkeypatch.setattr(module, "_logged", set())
    tracer = Mock(wraps=exported.tracer)
    tracer.start_span.return_value.end.side_effect = RuntimeError("no such exporter")
    tracer.start_span.return_value.get_span_context.return_value = INVALID_SPAN_CONTEXT
    monkeypatch.setattr(module, "_tracer", tracer)
    given = run(refuse, record(0), changed=lambda handler: replace(handler, details=FailureDetails.CLASS_ONLY))
    assert [each.exception for each in failures(given).values()] == ["ValueError"]
    assert "no such exporter" in caplog.text
    assert "no card" not in caplog.text
