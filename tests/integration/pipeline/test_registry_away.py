"""A schema registry that does not answer: the records of a task wait in the handler's process, uncounted."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.waiting import until
from tests.unit.serdes.conftest import Registry, registry  # noqa: F401 - a fixture

pytestmark = pytest.mark.timeout(180)

HANDLER = """
def handle(record, context):
    if record.offset == 1:
        raise ValueError(record.value)
"""
NUMBERS = [b"\x00\x00\x00\x00\x07" + bytes([2 * number]) for number in range(3)]


@pytest.mark.parametrize("slots", [1, 2])
def test_each_record_has_its_outcome(tmp_path: Path, registry: Registry, slots: int) -> None:  # noqa: F811
    """The registry answers nothing until it has been asked twice, and the failure is the handler's own."""
    registry.add(7, "int")
    registry.instead = (503, b"{}")
    with coming_back(registry):
        assert failures(handler_config(tmp_path, registry, slots=slots)) == ["ValueError"]


@pytest.mark.parametrize("slots", [1, 2])
def test_a_registry_that_hangs_is_no_missed_deadline(tmp_path: Path, registry: Registry, slots: int) -> None:  # noqa: F811
    """Each record waits for it, and none is counted."""
    registry.add(7, "int")
    registry.seconds, registry.instead = 4.0, (503, b"{}")
    with coming_back(registry):
        assert failures(handler_config(tmp_path, registry, slots=slots, deadline="2s")) == ["ValueError"]


def failures(config: HandlerConfig) -> list[str]:
    """Have the records handled, and return the exceptions of those that failed."""
    handling = Handling(config)
    try:
        found = list(handling.handle(rows()))
        while sum(each.outcomes.number for each in found) < len(NUMBERS):
            found += handling.collect(0.2)
    finally:
        handling.close()
    return [failure.exception for each in found for _, failure in each.outcomes.failures]


def handler_config(folder: Path, registry: Registry, **handler: object) -> HandlerConfig:  # noqa: F811
    """The configuration of a source whose values need the registry."""
    (folder / "waiting_handlers.py").write_text(HANDLER, encoding="utf-8")
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere", "log_level": 0},
        "sources": [{"topic": "t", "value": {"format": "avro", "registry": {"url": registry.url, "max.retries": "0"}}}],
        "handler": {"callable": "waiting_handlers:handle", **handler},
    }
    return HandlerConfig(load_settings(json.dumps(settings)), folder, (*sys.path, str(folder)), 30, TEXT)


@contextmanager
def coming_back(registry: Registry) -> Iterator[None]:  # noqa: F811
    """Let the registry answer after it has been asked twice."""

    def come_back() -> None:
        until(lambda: len(registry.requests) >= 2, "the registry was asked twice")
        registry.seconds, registry.instead = 0.0, None

    back = Thread(target=come_back)
    back.start()
    yield
    back.join()


def rows() -> Rows:
    """Three records of one partition."""
    columns = [[None] * 3, NUMBERS, [None] * 3, ["t"] * 3, [0] * 3, range(3), [0] * 3]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Rows(Partition("t", 0), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
