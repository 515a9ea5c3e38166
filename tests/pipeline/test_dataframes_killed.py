"""Drivers of a transformation that decides at random are killed: each record has one outcome all the same."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.streaming import LONG_S
from tests.scenarios.running import Group, Process, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NUMBER = 2_000
PROGRAM = """
import sys
from pyspark.sql import functions as F
from kafka_redelivery.pipeline.spark.session import spark_session
from kafka_redelivery.spark import Redelivery

r = Redelivery.load(sys.argv[1])

def clean(given):
    return given.withColumn("_failure", F.when(F.rand() < 0.5, r.reject("by chance")))

with spark_session("orders", {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}) as spark:
    query = r.start(spark, clean, to=r.kafka(sys.argv[2], value=F.col("n").cast("string")), schema="n int")
    query.awaitTermination()
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_each_record_has_one_outcome(group: Group) -> None:
    """A driver is killed twice in the middle of a micro-batch, of which a part is committed."""
    pipeline = {"checkpoint": "checkpoint", "maxOffsetsPerTrigger": NUMBER}
    group.prepare(pipeline=pipeline, limits={"batch": 20})
    program = group.folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    group.send([["ok"]] * NUMBER)
    for number in (1, 2):
        killed = _started(group, program, f"killed{number}")
        before = _done(group)
        until(lambda: _done(group) > before or not killed.running, "a part is committed", within_s=LONG_S)  # noqa: B023
        killed.kill()
        assert _done(group) < NUMBER, "all was done before it was killed"
    last = _started(group, program, "last")
    until(lambda: _done(group) >= NUMBER or not last.running, "all is handled", within_s=LONG_S)
    last.kill()

    group.cluster.wait_for_markers(group.output, group.dead_letters)
    outputs, dead = group.outputs(), group.dead()
    assert outputs + dead == exactly(range(NUMBER))
    assert min(len(outputs), len(dead)) > NUMBER / 4


def _started(group: Group, program: Path, name: str) -> Process:
    command: list[Any] = [str(program), str(group.file), group.output]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = Process(name, command, environment, group.folder / f"{name}.log")
    group.processes.append(process)
    return process


def _done(group: Group) -> int:
    """How many records have an outcome."""
    return group.outputs().total() + group.dead().total()
