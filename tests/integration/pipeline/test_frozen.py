"""A task that is frozen with its handler for longer than the deadline."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.freezing import DEADLINE, freeze

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("slots", [1, 2])
def test_the_handler_is_not_killed_after_a_freeze(tmp_path: Path, slots: int) -> None:
    """With one slot, and with several."""
    assert freeze([sys.executable, "-m", __name__, str(tmp_path), str(slots)]) == "[]"


def main(folder: Path, slots: int) -> None:
    """Have a record handled, and print its failures."""
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere", "log_level": 0},
        "sources": [{"topic": "t"}],
        "handler": {
            "callable": "tests.unit.consumers.freezing:handle",
            "slots": slots,
            "deadline": f"{DEADLINE.total_seconds():g}s",
        },
    }
    config = HandlerConfig(load_settings(json.dumps(settings)), folder, tuple(sys.path), 30, TEXT)
    batch = pa.RecordBatch.from_pylist([{"value": b"x", "partition": 0, "offset": 0, "timestamp": 0}], SCHEMA)
    rows = Rows(Partition("t", 0), batch)
    handling = Handling(config)
    found = [*handling.handle(rows)]
    while not found:
        found += handling.collect(1.0)
    handling.close()
    print([failure for each in found for failure in each.outcomes.failures])  # noqa: T201 - the outcome


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
