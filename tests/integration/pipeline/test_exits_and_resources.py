"""In the process of a Spark task an exit fails its record, and asynchronous resources are opened and closed."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.items import Handled
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition

pytestmark = pytest.mark.timeout(180)

HANDLERS = """
import asyncio
import os
import sys

def handle(record):
    if record.value == b"sys.exit":
        sys.exit(3)

async def leave():
    sys.exit(3)

async def handle_async(record):
    if record.value == b"gather":
        await asyncio.gather(leave(), asyncio.sleep(0))
    if record.value == b"group":
        async with asyncio.TaskGroup() as group:
            group.create_task(leave())
    handle(record)

def vector(batch):
    for value in batch.column("value").to_pylist():
        if value == b"sys.exit":
            sys.exit(3)

async def vector_async(batch):
    if b"gather" in batch.column("value").to_pylist():
        await asyncio.gather(leave(), asyncio.sleep(0))
    vector(batch)

class Connected:
    async def __aenter__(self):
        self.group = await asyncio.TaskGroup().__aenter__()
        self.questions = asyncio.Queue()
        self.answering = self.group.create_task(self.answer())
        return self

    async def __aexit__(self, *_):
        self.answering.cancel()
        await self.group.__aexit__(None, None, None)
        open("LEFT", "w").close()

    async def __call__(self, record):
        question = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(question)
        await question

    async def answer(self):
        while True:
            (await self.questions.get()).set_result(None)
"""

Start = Callable[..., Handling]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start the process of one of the handlers."""
    source = HANDLERS.replace('"LEFT"', repr(str(tmp_path / "left")))
    (tmp_path / "exiting_handlers.py").write_text(source, encoding="utf-8")

    def started(name: str, **handler: object) -> Handling:
        settings = {
            "group": "g",
            "kafka": {"bootstrap.servers": "nowhere", "log_level": 0},
            "sources": [{"topic": "t"}],
            "handler": {"callable": f"exiting_handlers:{name}", **handler},
        }
        config = HandlerConfig(load_settings(json.dumps(settings)), tmp_path, (*sys.path, str(tmp_path)), 30, TEXT)
        return Handling(config)

    return started


@pytest.mark.parametrize(
    ("name", "values", "handler"),
    [
        ("handle", [b"sys.exit"], {}),
        ("handle_async", [b"sys.exit", b"gather", b"group"], {}),
        ("vector", [b"sys.exit"], {"vectorized": True}),
        ("vector_async", [b"sys.exit", b"gather"], {"vectorized": True}),
        ("handle", [b"sys.exit"], {"slots": 2}),
        ("handle_async", [b"sys.exit", b"gather", b"group"], {"slots": 2}),
        ("handle", [b"sys.exit"], {"slots": 2, "isolation": "process"}),
    ],
    ids=str,
)
def test_an_exit_fails_its_record(start: Start, name: str, values: list[bytes], handler: dict[str, object]) -> None:
    """Those around it are handled, in the same process."""
    with closing(start(name, **handler)) as found:
        child = found._child
        assert outcomes(found, [b"ok", *values, b"ok"]) == ["ok", *["SystemExit"] * len(values), "ok"]
        assert found._child is child


@pytest.mark.parametrize("handler", [{}, {"slots": 2}, {"slots": 2, "isolation": "process"}], ids=str)
def test_an_asynchronous_resource_is_open_during_all_calls(
    start: Start, tmp_path: Path, handler: dict[str, object]
) -> None:
    """It is closed when the task gives its process up."""
    with closing(start("Connected", **handler)) as found:
        for _ in range(2):
            assert outcomes(found, [b"ok"] * 3) == ["ok"] * 3
        assert not (tmp_path / "left").exists()
    assert (tmp_path / "left").exists()


def outcomes(found: Handling, values: list[bytes]) -> list[str]:
    """The exception of each record, or ``ok``, by offset."""
    count = len(values)
    columns = [[None] * count, values, [None] * count, ["t"] * count, [0] * count, range(count), [0] * count]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    rows = Rows(Partition("t", 0), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    results: list[Handled] = list(found.handle(rows))
    ended: dict[int, str] = {}
    end_s = monotonic_s() + 60
    while len(ended) < count and monotonic_s() < end_s:
        for handled in results:
            failures = dict(handled.outcomes.failures)
            for index, record in enumerate(handled.records):
                ended[record.offset()] = failures[index].exception if index in failures else "ok"
        results = list(found.collect(0.2))
    return [ended[offset] for offset in sorted(ended)]
