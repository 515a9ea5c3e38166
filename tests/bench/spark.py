"""The streaming query beside a bare copy by Spark of the same records: Kafka, identity in Python over Arrow, Kafka.

Both run in one session of two threads, one after the other. The first micro-batch of each query is left out: it starts
Python, and the handler's processes, which a query does once.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from pipeline.session import spark_session
from pipeline.stream import run_stream
from tests.bench.bed import Bed
from tests.bench.drained import numbers_in
from tests.bench.options import Options
from tests.bench.result import Baseline, Result

_MICRO_BATCHES = 5
_FAILING = (0.0, 0.1)
_STEPS = ("VectorEmits", "Emits")
_SETTINGS = {"spark.master": "local[2]", "spark.log.level": "ERROR", "spark.driver.memory": "2g"}
_END_S = 30.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """One result for each handler and share of failures."""
    n = options.n or (20_000 if options.quick else 300_000)
    source = bed.fed(n, options)
    with spark_session("bench", _SETTINGS) as session:
        progress = _Progress()
        session.streams.addListener(progress)
        side = _Side(bed, options, n, source, session, progress)
        bed.say("bare copy, to warm up")
        side.bare()
        for handler in _STEPS:
            for failing in _FAILING:
                yield _result(side, handler, failing)
        session.streams.removeListener(progress)


def _result(side: "_Side", handler: str, failing: float) -> Result:
    bare, ours, lost, doubled = [], [], 0, 0
    for turn in range(side.options.repeat):
        side.bed.say(f"{handler}, {failing:.0%} fail, {turn + 1} of {side.options.repeat}")
        rate, missing, more = side.ours(handler, failing)
        ours.append(rate)
        lost, doubled = lost + missing, doubled + more
        side.bed.say(f"bare copy, {turn + 1} of {side.options.repeat}")
        bare.append(side.bare())
    rate, limit = median(ours), median(bare)
    return Result(
        workload="spark",
        mode="transacted",
        params={
            "n": side.n,
            "handler": "vectorised" if handler.startswith("Vector") else "one by one",
            "fail_ratio": failing,
            **side.options.params("value_bytes", "keys", "partitions", "repeat"),
        },
        records_per_s=round(rate),
        baseline=Baseline(name="Spark's own copy", records_per_s=round(limit)),
        ratio=round(rate / limit, 3),
        lost=lost,
        doubled=doubled,
        details={"runs": [round(each) for each in ours], "baseline_runs": [round(each) for each in bare]},
    )


class _Progress(StreamingQueryListener):
    """Notes how long each micro-batch took, by query."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, float]] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802, ANN401 - Spark's own
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802, ANN401 - Spark's own
        told = event.progress
        if told.numInputRows:
            self.batches.append((told.numInputRows, told.durationMs["triggerExecution"] / 1000))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802, ANN401 - Spark's own
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802, ANN401 - Spark's own
        pass


@dataclass(slots=True)
class _Side:
    bed: Bed
    options: Options
    n: int
    source: str
    session: SparkSession
    progress: _Progress
    _told: int = field(default=0)

    @property
    def most(self) -> int:
        return -(-self.n // _MICRO_BATCHES)

    def bare(self) -> float:
        """Records per second of Spark's own copy."""
        target = self.bed.topic("bare-output", self.options.partitions)
        frame = (
            self.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bed.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(self.most))
            .load()
            .select("key", "value")
            .mapInArrow(_identity, "key binary, value binary")
        )
        query = (
            frame.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bed.servers)
            .option("topic", target)
            .option("checkpointLocation", str(self.bed.folder / f"checkpoint-{target}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self._rate()

    def ours(self, handler: str, failing: float) -> tuple[float, int, int]:
        """Records per second of our query; how many outputs and copies were lost, and doubled."""
        output = self.bed.topic("output", self.options.partitions)
        vectorized = handler.startswith("Vector")
        team_options = self.options.with_changes(slots=1)
        with self.bed.team(
            self.source,
            f"spark_handlers:{handler}",
            team_options,
            handler_section={"vectorized": vectorized, "deadline": "60s"},
            pipeline={"checkpoint": "checkpoint", "maxOffsetsPerTrigger": self.most},
            policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 3_600_000}},
        ) as team:
            Path(team.folder, "told").write_text(f"{output} {failing}")
            run_stream(team.settings, team.folder, available_now=True, session=self.session)
            retried = team.settings.naming().tier_topic(3_600_000)
            written, waiting = numbers_in(self.bed, output, self.n), numbers_in(self.bed, retried, self.n)
        doubled = written.doubled + waiting.doubled
        return self._rate(), max(0, written.lost + waiting.lost - self.n), doubled

    def _rate(self) -> float:
        end_s = time.monotonic() + _END_S
        while sum(rows for rows, _ in self.progress.batches) < self.n and time.monotonic() < end_s:
            time.sleep(0.05)
        batches, self.progress.batches = self.progress.batches[1:], []
        return sum(rows for rows, _ in batches) / sum(seconds for _, seconds in batches)


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
