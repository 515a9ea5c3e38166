"""A transformation that decides at random, interrupted after each step on the way to its Delta table.

A step that was done is not decided again: the table has what the topic has, and each record has one outcome.
"""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.errors import StreamHaltedError
from kafka_redelivery.pipeline.lake.table import CHECKPOINT, read_table
from kafka_redelivery.pipeline.stream import micro_batches
from kafka_redelivery.pipeline.stream.micro_batches import MicroBatches
from kafka_redelivery.pipeline.stream.queries import Queries
from kafka_redelivery.spark import Redelivery
from tests.pipeline.delta_table import forget_delta
from tests.pipeline.dying import DyingTask
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

NUMBER = 100
"""Records of a round, half of them in each partition."""


class Rounds:
    """Each round has its own records, and another step that is the last one before an interruption."""

    def __init__(self, group: Group, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        """Create the topics of the group; a write has ten records at most."""
        group.prepare(pipeline={"checkpoint": "checkpoint", "scheduler": "driver"}, limits={"batch": 10})
        self.group, self.spark, self.monkeypatch = group, spark, monkeypatch
        self.table = Path(group.folder) / "silver"
        self.records = 0
        self._r = Redelivery.load(group.file)

    def step(self, interrupt: Callable[[], None]) -> None:
        """Send records, run until the interruption, and run again."""
        numbers = range(self.records, self.records + NUMBER)
        self.group.cluster.produce(self.group.source, [Sent(b'{"n": %d}' % n, partition=n % 2) for n in numbers])
        self.records += NUMBER
        interrupt()
        self.run()

    def by_chance(self, given: DataFrame) -> DataFrame:
        """Draw a number for each record. A replay draws other ones."""
        failed = F.when(F.col("draw") < 0.3, self._r.reject("by chance"))
        return given.withColumn("draw", F.rand()).withColumn("_failure", failed)

    def run(self, *, ends: bool = True) -> None:
        """Run until no record waits, or until the interruption."""
        to = self._r.delta(str(self.table), through=self.group.output)
        within = timedelta(minutes=4)
        query = self._r.start(
            self.spark, self.by_chance, to=to, schema="n int", available_now=True, until_settled=within
        )
        if ends:
            assert query.awaitTermination(within.total_seconds())
            return
        with pytest.raises((RuntimeError, StreamHaltedError), match="interrupted"):
            query.awaitTermination(within.total_seconds())

    def interrupted(self, kind: type, name: str, *, after: bool) -> None:
        """Run with a method that fails, at its start or when it is done."""
        real: Callable[..., object] = getattr(kind, name)

        def fail(*arguments: object) -> None:
            if after:
                real(*arguments)
            raise RuntimeError("interrupted")

        with self.monkeypatch.context() as patch:
            patch.setattr(kind, name, fail)
            self.run(ends=False)

    def with_a_task_that_dies(self) -> None:
        """Run with it; the micro-batch is computed again, and all tasks run again."""
        flag = Path(self.group.folder) / "dies"
        flag.touch()
        with self.monkeypatch.context() as patch:
            patch.setattr(micro_batches, "SparkTask", DyingTask)
            self.run()
        assert not flag.exists()

    def forgetting(self, *logs: tuple[str, str]) -> None:
        """Run, and remove the last entry of these logs, as if the process had died before it was written."""
        self.run()
        for folder, suffix in logs:
            entries = [each for each in (self.table / folder).iterdir() if each.name.removesuffix(suffix).isdigit()]
            last = max(entries, key=lambda each: int(each.name.removesuffix(suffix)))
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
            last.with_suffix(".crc").unlink(missing_ok=True)
        forget_delta(self.spark)


@pytest.mark.timeout(1_800)
def test_nothing_is_decided_twice(group: Group, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps in their order, as docs/guarantees.md lists them."""
    rounds = Rounds(group, spark, monkeypatch)
    noted, appended = (f"{CHECKPOINT}/commits", ""), ("_delta_log", ".json")
    rounds.step(lambda: rounds.interrupted(MicroBatches, "_run", after=False))
    rounds.step(rounds.with_a_task_that_dies)
    rounds.step(lambda: rounds.interrupted(MicroBatches, "_run", after=True))
    rounds.step(lambda: rounds.interrupted(Queries, "_append", after=False))
    rounds.step(lambda: rounds.forgetting(appended, noted))
    rounds.step(lambda: rounds.forgetting(noted))

    group.cluster.wait_for_markers(group.output, group.dead_letters)
    sent = [json.loads(record.value or b"") for record in group.cluster.read(group.output)]
    dead = [json.loads(record.value or b"")["n"] for record in group.cluster.read(group.dead_letters)]
    assert Counter([row["n"] for row in sent] + dead) == Counter(range(rounds.records))
    assert min(len(sent), len(dead)) > NUMBER
    rows = Counter((row["n"], row["draw"]) for row in read_table(spark, str(rounds.table)).collect())
    assert rows == Counter((row["n"], row["draw"]) for row in sent)
