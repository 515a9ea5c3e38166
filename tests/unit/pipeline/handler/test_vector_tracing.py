"""A call of a vectorised handler is a span with links of each row; what has failed in it, or was emitted, names it."""

from collections.abc import Callable
from typing import Any, cast
from unittest.mock import Mock

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers import spans, tracing
from kafka_redelivery.consumers.handlers.child import SHARED_BYTES, SharedPosition
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.tracing import carrier
from kafka_redelivery.consumers.telemetry import messaging_conventions as names
from kafka_redelivery.pipeline.handler import vectorized
from kafka_redelivery.pipeline.handler.items import PublishedItem
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.pipeline.handler.vectorized import COLUMNS, BatchContext, VectorProcessor, vector_spans
from kafka_redelivery.topology.wire.headers import LAST_ATTEMPT
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.handlers.test_spans import PRODUCER, PRODUCERS_SPAN, Exported, links, traceparent
from tests.unit.consumers.records import NOW, item, source

BEFORE = f"00-{'ab' * 16}-{'1' * 16}-01".encode()


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    """Export the spans of the test to memory, without a provider for all others."""
    found = Exported()
    monkeypatch.setattr(spans, "_tracer", found.tracer)
    for module in (vectorized, tracing):
        monkeypatch.setattr(module, "tracing", lambda: True)
    return found


def batch_of(*offsets: int) -> pa.RecordBatch:
    """Rows of the source, with the headers of their producer."""
    headers = [{"key": name, "value": value} for name, value in PRODUCER]
    row: dict[str, Any] = {"key": b"k", "value": b"v", "headers": headers, "topic": "orders", "partition": 5}
    rows = [row | {"offset": offset, "timestamp": 0, "attempt": 2} for offset in offsets]
    return pa.RecordBatch.from_pylist(rows, COLUMNS)


def deliver(function: Callable[[pa.RecordBatch, BatchContext], None]) -> None:
    """Deliver a record of the source that an attempt before has failed."""
    handler = as_handler(function, takes="arrow")
    headers = [*batch_of(42)["headers"].to_pylist()[0], {"key": LAST_ATTEMPT, "value": BEFORE}]
    row = batch_of(42).to_pylist()[0] | {"headers": headers}
    rows = Rows(Partition("orders", 5), pa.RecordBatch.from_pylist([row], SCHEMA))
    given = WorkItem(item(source(partition=5), ()).lane, cast("Any", rows))
    place = SharedPosition(bytearray(SHARED_BYTES))
    published = PublishedItem(given, rows.offsets(), 0, place, grace_s=0.0, singly=False)
    processor = Processor(handler, {}, lambda: NOW, None)
    VectorProcessor(handler, processor, Mock(), lambda *_: None).run(published)


def headers_seen() -> list[str]:
    """Return the names of the headers that a handler gets."""
    seen: list[str] = []

    def look(batch: pa.RecordBatch, context: BatchContext) -> None:
        del context
        seen.extend(each["key"] for pairs in batch["headers"].to_pylist() for each in pairs)

    deliver(look)
    return seen


def test_without_traces_nothing_is_done_for_the_attempt_before() -> None:
    """Its header is passed on like one of the user's; with traces the handler does not see it."""
    assert headers_seen() == [*(name for name, _ in PRODUCER), LAST_ATTEMPT]


@pytest.mark.usefixtures("exported")
def test_with_traces_a_handler_does_not_see_the_attempt_before() -> None:
    """As in a worker."""
    assert headers_seen() == [name for name, _ in PRODUCER]


def test_a_call_says_how_many_rows_it_has_failed(exported: Exported) -> None:
    """As of a handler that takes batches; the call has not failed."""
    deliver(lambda _, context: context.fail([0], ValueError("no")))
    assert (exported.only.attributes or {})[names.FAILED] == 1
    assert exported.only.status.is_ok


def test_links_failures_and_outputs(exported: Exported) -> None:
    """As of a handler that takes batches."""
    found = vector_spans(as_handler(lambda batch, context: None))  # noqa: ARG005 - a handler's signature
    assert found is not None
    with found.call(batch_of(42, 43), "billing", {7: BEFORE}, 7):
        context = BatchContext(2, found.handler, None, carrier())
        context.fail([1], ValueError("no"))
        context.send("receipts", [b"a", b"b"])
        context.send("receipts", [b"a", b"b"], headers={"traceparent": b"00-1"})
    span = exported.only
    linked = [((each.attributes or {})[names.MESSAGE_ID], (each.attributes or {})[names.LINK]) for each in span.links]
    assert linked == [
        ("orders-5@42", names.PRODUCER),
        ("orders-5@42", names.LAST_ATTEMPT),
        ("orders-5@43", names.PRODUCER),
    ]
    assert context.failures[1].span == traceparent(span)
    ours, users = (each.table.column("headers").to_pylist()[0] for each in context.emitted)
    assert ours == [{"key": "traceparent", "value": traceparent(span).encode()}]
    assert users == [{"key": "traceparent", "value": b"00-1"}]


def test_a_single_row_continues_its_producers_trace(exported: Exported) -> None:
    """As after a call that raised."""
    found = vector_spans(as_handler(lambda batch: None))  # noqa: ARG005 - a handler's signature
    assert found is not None
    with found.call(batch_of(42), "billing", {0: BEFORE}, 0):
        pass
    assert links(exported.only) == {names.PRODUCER: PRODUCERS_SPAN, names.LAST_ATTEMPT: "1" * 16}
    assert exported.only.parent is not None
    assert (exported.only.attributes or {})[names.ATTEMPT] == 2
