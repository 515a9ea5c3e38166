"""On Spark, too, the life of a record is one linked story of spans."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from kafka_redelivery import BatchContext
from tests.pipeline.streaming import LONG_S, prepare
from tests.scenarios.collector import collecting
from tests.scenarios.deliveries import LOG
from tests.scenarios.handlers import OUTPUT
from tests.scenarios.redriving import dlq_json
from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.worker.test_traces import REPAIRED, charge_at, check_story, sent

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def charge_vectorized(batch: pa.RecordBatch, context: BatchContext) -> None:
    """Handle each record within a span of the user, and emit one for each."""
    for row, offset in enumerate(batch["offset"].to_pylist()):
        try:
            charge_at(offset)
        except ValueError as error:
            context.fail([row], error)
    context.send(os.environ[OUTPUT], [b"paid"] * len(batch))


def _settle(group: Group, number: int) -> None:
    """Run the command, in a process of its own, until no record waits."""
    command = [*COMMAND, "pipeline", "stream", "--config", str(group.file), "--available-now", "--until-settled", "2m"]
    command += ["--set", 'pipeline.spark={"spark.master": "local[2]"}']
    environment = {**os.environ, OUTPUT: group.output, LOG: str(group.deliveries.path)}
    process = Process(f"query-{number}", command, environment, group.folder / f"query-{number}.log")
    group.processes.append(process)
    assert process.wait(3 * LONG_S) == 0, process.log[-3000:]


@pytest.mark.parametrize("vectorized", [False, True], ids=["records", "vectorised"])
def test_the_life_of_a_record(group: Group, monkeypatch: pytest.MonkeyPatch, *, vectorized: bool) -> None:
    """Its spans are exported by the process of the handlers, a child of Spark's."""
    handler = "tests.scenarios.worker.test_traces:charge"
    if vectorized:
        handler = f"{__name__}:charge_vectorized"
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        policy = {"maximumRedeliveries": 2, "initialRedeliveryDelay": 0, "redeliveryDelay": 200}
        section = {"callable": handler} | ({"vectorized": True} if vectorized else {})
        raw = {"sources": [{"topic": group.source}]} if vectorized else {}  # it takes bytes
        scheduler = {"scheduler": "driver"}
        prepare(
            group, partitions=1, handler=section, pipeline=scheduler, policyEntry={"redeliveryPolicy": policy}, **raw
        )
        group.cluster.produce(group.source, [sent(number) for number in range(2)])
        _settle(group, 1)
        assert len(group.cluster.read(group.dead_letters)) == 2
        (group.folder / REPAIRED).touch()
        assert dlq_json(group, "redrive", "--yes")["sent"] == 2
        _settle(group, 2)
    assert len(group.cluster.read(group.output)) == 2
    for number in range(2):
        check_story(group, collector, number, batch=vectorized)
