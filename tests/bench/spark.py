"""The streaming query against a bare Spark copy of the same records: Kafka, identity in Python over Arrow, Kafka.

Both run alternately in one session of two threads and read the same topic, which is full before they start. The copy
also runs with our settings for reading, which are faster than Spark's defaults. Each runs once before it is measured.
The first micro-batch of each run is left out, because it starts Python and the handler's processes once per query. The
rate is that of the other micro-batches: records divided by the time from trigger to end.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from kafka_redelivery.pipeline.spark.kafka_options import kafka_options
from kafka_redelivery.pipeline.spark.session import spark_session
from kafka_redelivery.pipeline.stream.stream import run_stream
from kafka_redelivery.spark import Redelivery
from tests.bench.bed import Bed, Team
from tests.bench.drained import numbers_in
from tests.bench.options import Options
from tests.bench.result import Baseline, Result
from tests.bench.tally import NUMBER_DIGITS
from tests.bench.usage import family_cpu_s

_MICRO_BATCH = 100_000
"""The default maximum of records in a micro-batch of a query."""

_LEAST_MICRO_BATCHES = 3
_FAILING = (0.0, 0.1)
_DATAFRAME = "DataFrame"
_STEPS = {"VectorEmits": "vectorised", "Emits": "one by one", _DATAFRAME: "DataFrame"}
_SETTINGS = {"spark.master": "local[2]", "spark.log.level": "ERROR", "spark.driver.memory": "2g"}
_END_S = 30.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each handler and share of failures."""
    n = options.n or (20_000 if options.quick else 400_000)
    source = bed.fed(n, options)
    # As many as a query sets for its sources and their ready topics.
    consumers = {"spark.kafka.consumer.cache.capacity": str(max(64, 2 * options.partitions))}
    with spark_session("bench", _SETTINGS | consumers) as session:
        progress = _Progress(bed.kafka.pid)
        session.streams.addListener(progress)
        side = _Side(bed, options, n, source, session, progress)
        bed.report_progress("both, to warm up")
        side.bare({})
        side.ours(next(iter(_STEPS)), 0.0)
        for handler in _STEPS:
            for failing in _FAILING:
                yield _result(side, handler, failing)
        session.streams.removeListener(progress)


def _result(side: "_Side", handler: str, failing: float) -> Result:
    bare: list[_Steady] = []
    tuned: list[_Steady] = []
    ours: list[_Steady] = []
    lost = doubled = 0
    for turn in range(side.options.repeat):
        side.bed.report_progress(f"{handler}, {failing:.0%} fail, {turn + 1} of {side.options.repeat}")
        steady, missing, more = side.ours(handler, failing)
        ours.append(steady)
        lost, doubled = lost + missing, doubled + more
        side.bed.report_progress(f"bare copy, {turn + 1} of {side.options.repeat}")
        bare.append(side.bare({}))
        tuned.append(side.bare(kafka_options({})))
    rate, limit, beyond = (median(run.records_per_s for run in runs) for runs in (ours, bare, tuned))
    return Result(
        workload="spark",
        mode="transacted",
        params={
            "n": side.n,
            "handler": _STEPS[handler],
            "fail_ratio": failing,
            **side.options.params("value_bytes", "keys", "partitions", "repeat"),
        },
        records_per_s=round(rate),
        baseline=Baseline(name="Spark's own copy", records_per_s=round(limit)),
        ratio=round(rate / limit, 3),
        lost=lost,
        doubled=doubled,
        cpu_us_per_record=round(median(run.cpu_us for run in ours), 1),
        details={
            "runs": [round(run.records_per_s) for run in ours],
            "baseline_runs": [round(run.records_per_s) for run in bare],
            "runs_cpu_us": [round(run.cpu_us, 1) for run in ours],
            "baseline_runs_cpu_us": [round(run.cpu_us, 1) for run in bare],
            "baseline_read_as_ours": {
                "ratio": round(rate / beyond, 3),
                "runs": [round(run.records_per_s) for run in tuned],
                "runs_cpu_us": [round(run.cpu_us, 1) for run in tuned],
            },
        },
    )


class _Steady(NamedTuple):
    """The figures of a run without its first micro-batch."""

    records_per_s: float
    cpu_us: float
    """CPU microseconds per record, of all processes including the broker."""


class _MicroBatch(NamedTuple):
    rows: int
    seconds: float
    cpu_s: float
    """CPU seconds used until the end of the micro-batch."""


class _Progress(StreamingQueryListener):
    """Records the size, duration and CPU seconds of each micro-batch."""

    def __init__(self, broker: int) -> None:
        self.batches: list[_MicroBatch] = []
        self._broker = broker

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802, ANN401 - Spark's own
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802, ANN401 - Spark's own
        progress = event.progress
        if progress.numInputRows:
            cpu_s = family_cpu_s(os.getpid(), self._broker)
            self.batches.append(
                _MicroBatch(progress.numInputRows, progress.durationMs["triggerExecution"] / 1000, cpu_s)
            )

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

    @property
    def max_micro_batch(self) -> int:
        return min(_MICRO_BATCH, -(-self.n // _LEAST_MICRO_BATCHES))

    def bare(self, reading: Mapping[str, str]) -> _Steady:
        """Run Spark's own copy with these options of its source."""
        target = self.bed.topic("bare-output", self.options.partitions)
        frame = (
            self.session.readStream.format("kafka")
            .options(**reading)
            .option("kafka.bootstrap.servers", self.bed.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(self.max_micro_batch))
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
        return self._steady()

    def ours(self, handler: str, failing: float) -> tuple[_Steady, int, int]:
        """Run our query; return its figures and the numbers of lost and doubled records."""
        output = self.bed.topic("output", self.options.partitions)
        vectorized = handler != "Emits"
        team_options = self.options.with_changes(slots=1)
        with self.bed.team(
            self.source,
            f"spark_handlers:{next(iter(_STEPS)) if handler == _DATAFRAME else handler}",
            team_options,
            handler_section={"vectorized": vectorized, "deadline": "60s"},
            pipeline={"checkpoint": "checkpoint", "maxOffsetsPerTrigger": self.max_micro_batch},
            policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 3_600_000}},
        ) as team:
            Path(team.folder, "parameters").write_text(f"{output} {failing}")
            if handler == _DATAFRAME:
                self._transform(team, output, failing)
            else:
                run_stream(team.settings, team.folder, available_now=True, session=self.session)
            steady = self._steady()
            retried = team.settings.naming().tier_topic(3_600_000)
            written, waiting = numbers_in(self.bed, output, self.n), numbers_in(self.bed, retried, self.n)
        doubled = written.doubled + waiting.doubled
        return steady, max(0, written.lost + waiting.lost - self.n), doubled

    def _transform(self, team: Team, output: str, failing: float) -> None:
        """Run a transformation whose check is an expression of Spark: a tenth of the records fails, or none."""
        r = Redelivery.load(team.file)
        chosen = F.substring("value", NUMBER_DIGITS, 1) == F.lit(b"0")
        failed = F.when(chosen if failing else F.lit(False), r.retry("chosen to fail"))  # noqa: FBT003 - a value
        to = r.kafka(output, value=F.col("value"))
        query = r.start(self.session, lambda given: given.withColumn("_failure", failed), to=to, available_now=True)
        query.awaitTermination()

    def _steady(self) -> _Steady:
        end_s = time.monotonic() + _END_S
        while sum(each.rows for each in self.progress.batches) < self.n and time.monotonic() < end_s:
            time.sleep(0.05)
        (first, *rest), self.progress.batches = self.progress.batches, []
        rows = sum(each.rows for each in rest)
        return _Steady(rows / sum(each.seconds for each in rest), (rest[-1].cpu_s - first.cpu_s) / rows * 1e6)


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
