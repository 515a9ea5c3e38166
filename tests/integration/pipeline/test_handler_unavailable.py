"""What the process of a handler needs at its start is away when it is started again: its records wait, uncounted."""

import json
import sys
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.handlers import child
from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.waiting import until

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("state", ["away", "hangs"])
def test_records_wait_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, slots: int, state: str
) -> None:
    """Only the record that has killed the process has failed."""
    database = tmp_path / "database"
    monkeypatch.setenv("CHILD_HANDLERS_DATABASE", str(database))
    monkeypatch.setattr(child, "_MIN_LOAD_LIMIT_S", 3.0)
    monkeypatch.setattr(child, "_LOAD_LIMIT_FACTOR", 0.0)
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere", "log_level": 0},
        "sources": [{"topic": "t"}],
        "handler": {"callable": "tests.unit.consumers.child_handlers:NeedingOnly", "slots": slots},
    }
    config = HandlerConfig(load_settings(json.dumps(settings)), tmp_path, tuple(sys.path), 30, TEXT)
    values = [b"ok", b"exit", b"ok"]
    records = [{"value": each, "partition": 0, "offset": n, "timestamp": 0} for n, each in enumerate(values)]
    handling = Handling(config)
    database.write_text(state, encoding="utf-8")

    def come_back() -> None:
        until(lambda: "it is tried again in 2 s" in caplog.text, "the process could not be started twice")
        database.unlink()

    back = Thread(target=come_back)
    back.start()
    found = [*handling.handle(Rows(Partition("t", 0), pa.RecordBatch.from_pylist(records, SCHEMA)))]
    while sum(each.outcomes.number for each in found) < len(values):
        found += handling.collect(1.0)
    back.join()
    handling.close()
    failed = [each.records[index].offset() for each in found for index, _ in each.outcomes.failures]
    assert failed == [1]
