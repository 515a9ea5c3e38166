"""The process of a Spark task has a handler for each source: it picks it by the source of each record."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition

Handlers = Mapping[str, Mapping[str, object]]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HANDLERS = """
import asyncio
import os
import threading
import time
from dataclasses import dataclass

from kafka_redelivery import Context, Record

both = threading.Barrier(2, timeout=20)

def handle(record, context):
    verb = record.value.decode()
    if verb == "meet":
        both.wait()
    if verb == "stall":
        time.sleep(60)
    if verb == "exit":
        os._exit(3)
    context.send("out", b"plain " + record.value)

async def handle_async(record, context):
    verb = record.value.decode()
    if verb == "stall":
        await asyncio.sleep(60)
    context.send("out", b"async " + record.value)

@dataclass
class Order:
    id: int

def typed(order: Order, context: Context) -> None:
    context.send("out", b"typed %d" % (order.id + context.record.value.id))

async def typed_async(record: Record[Order], context: Context) -> None:
    context.send("out", b"async %d" % record.value.id)

def handle_rows(batch, context):
    values = batch.column("value").to_pylist()
    if b"meet" in values:
        both.wait()
    context.send("out", [b"rows " + value for value in values])
"""


def test_each_source_has_its_own(tmp_path: Path) -> None:
    """Plain, asynchronous and vectorised ones, in one process, and at the same time."""
    handlers: Handlers = {
        "a": {"callable": "several:handle"},
        "b": {"callable": "several:handle_async", "slots": 4, "ordering": "key"},
        "c": {"callable": "several:handle_rows", "vectorized": True},
        "d": {"callable": "several:handle", "slots": 2, "isolation": "process"},
    }
    with handling(tmp_path, handlers) as found:
        given = [rows(topic, [b"meet" if topic in "ac" else b"ok"] + [b"ok"] * 99) for topic in handlers]
        ended = outcomes(found, *given)

    assert {place: outcome for place, outcome in ended.items() if outcome.startswith("failed")} == {}
    assert ended["a", 0] == "plain meet"
    assert ended["c", 0] == "rows meet"
    kinds = {topic: {outcome.split()[0] for (t, _), outcome in ended.items() if t == topic} for topic in handlers}
    assert kinds == {"a": {"plain"}, "b": {"async"}, "c": {"rows"}, "d": {"plain"}}
    assert len(ended) == 400


def test_each_has_its_own_deadline(tmp_path: Path) -> None:
    """The record that exceeds the shorter one fails with it. One that needs longer goes on, or has none."""
    handlers: Handlers = {
        "a": {"callable": "several:handle", "deadline": "1s"},
        "b": {"callable": "several:handle_async", "slots": 2, "deadline": "2s"},
        "c": {"callable": "several:handle", "slots": 2, "isolation": "process", "deadline": "3s"},
        "d": {"callable": "several:handle", "notRetryable": ["ValueError"]},
    }
    with handling(tmp_path, handlers) as found:
        values = [b"ok", b"stall", b"ok"]
        ended = outcomes(found, *(rows(topic, values) for topic in "abc"), rows("d", [b"ok"] * 3))

    failed = {place: outcome for place, outcome in ended.items() if outcome.startswith("failed")}
    assert failed == {
        ("a", 1): "failed: the handler took longer than 1.0 s",
        ("b", 1): "failed: the handler took longer than 2.0 s",
        ("c", 1): "failed: the handler took longer than 3.0 s",
    }
    assert len(ended) == 12


def test_a_record_that_kills_the_process_fails_alone(tmp_path: Path) -> None:
    """Those of the other handlers are handled again. One whose slots are processes of their own loses only those."""
    handlers: Handlers = {
        "a": {"callable": "several:handle"},
        "b": {"callable": "several:handle_async", "slots": 2},
        "c": {"callable": "several:handle", "slots": 1, "isolation": "process"},
    }
    values = [b"ok"] * 20
    with handling(tmp_path, handlers) as found:
        ended = outcomes(
            found,
            rows("a", [*values, b"exit", *values]),
            rows("b", values * 2),
            rows("c", [*values, b"exit", *values]),
        )

    failed = {place: outcome for place, outcome in ended.items() if outcome.startswith("failed")}
    assert failed == {
        ("a", 20): "failed: the handler's process died: exit code 3",
        ("c", 20): "failed: the handler's process died: exit code 3",
    }
    assert len(ended) == 122


def test_the_one_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """Not the others."""
    handlers = {"a": {"callable": "several:handle"}, "b": {"callable": "several:absent"}}
    with pytest.raises(HandlerLoadError, match="several:absent") as refused, handling(tmp_path, handlers):
        pass
    assert refused.value.target == "several:absent"


def test_values_are_converted_to_the_type_of_each_handler(tmp_path: Path) -> None:
    """In the process itself and in one of its own; a value that does not fit fails with its place."""
    handlers: Handlers = {
        "a": {"callable": "several:typed"},
        "b": {"callable": "several:typed_async", "slots": 2},
        "c": {"callable": "several:typed", "slots": 2, "isolation": "process"},
    }
    with handling(tmp_path, handlers, format="json") as found:
        ended = outcomes(found, *(rows(topic, [b'{"id": 1}', b'{"id": "x"}', b'{"id": 2}']) for topic in "abc"))

    fault = "failed: $.id: Input should be a valid integer, unable to parse string as an integer"
    assert [ended["a", offset] for offset in range(3)] == ["typed 2", fault, "typed 4"]
    assert [ended["b", offset] for offset in range(3)] == ["async 1", fault, "async 2"]
    assert [ended["c", offset] for offset in range(3)] == ["typed 2", fault, "typed 4"]


@contextmanager
def handling(folder: Path, handlers: Handlers, format: str = "raw") -> Iterator[Handling]:  # noqa: A002 - the setting
    """Start the process of these handlers, by source topic."""
    (folder / "several.py").write_text(HANDLERS, encoding="utf-8")
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere", "log_level": 0},
        "sources": [
            {"topic": topic, "handler": handler, "value": {"format": format}} for topic, handler in handlers.items()
        ],
        "outputs": [{"topic": "out"}],
    }
    config = HandlerConfig(load_settings(json.dumps(settings)), folder, (*sys.path, str(folder)), 30, TEXT)
    found = Handling(config)
    try:
        yield found
    finally:
        found.close()


def rows(topic: str, values: Sequence[bytes]) -> Rows:
    """Records of the only partition of a topic."""
    count = len(values)
    none, zeros = [None] * count, [0] * count
    columns: list[Any] = [none, values, none, [topic] * count, zeros, range(count), zeros]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Rows(Partition(topic, 0), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))


def outcomes(found: Handling, *parts: Rows) -> dict[tuple[str, int], str]:
    """Failure or output of each record, by topic and offset. Each has one."""
    ended: dict[tuple[str, int], str] = {}

    def add(results: Iterator[Any]) -> None:
        for handled in results:
            failures = dict(handled.outcomes.failures)
            emitted = {
                row: value.decode()
                for each in handled.outcomes.emitted
                for row, value in zip(
                    each.table.column("row").to_pylist(), each.table.column("value").to_pylist(), strict=True
                )
            }
            for index, record in enumerate(handled.records):
                place = (record.topic(), record.offset())
                assert place not in ended
                ended[place] = f"failed: {failures[index].message}" if index in failures else emitted[index]

    for part in parts:
        add(found.handle(part))
    end_s = monotonic_s() + 60
    while found._records and monotonic_s() < end_s:
        add(found.collect(0.2))
    return ended
