"""The streaming query against a bare Spark copy of the same records: Kafka, identity in Python over Arrow, Kafka.

Both run alternately in one session of two threads and read the same topic, which is full before they start. The copy
also runs with our settings for reading, which are faster than Spark's defaults. Each runs once before it is measured.
The first micro-batch of each run is left out, because it starts Python and the handler's processes once per query. The
rate is that of the other micro-batches: records divided by the time from trigger to end.
"""

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from kafka_redelivery.pipeline.spark.jars import DELTA
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
_VECTOR = "spark_handlers:VectorEmits"
_HANDLERS = {"VectorEmits": "vectorised", "Emits": "one by one"}
_STEPS = {**_HANDLERS, _DATAFRAME: "DataFrame"}
_SETTINGS = {"spark.master": "local[2]", "spark.log.level": "ERROR", "spark.driver.memory": "2g"}
_PIPELINE: dict[str, Any] = {
    "handler_section": {"vectorized": True, "deadline": "60s"},
    "policyEntry": {"redeliveryPolicy": {"initialRedeliveryDelay": 3_600_000}},
}
_FIRST_RECORDS = 1_000
_FIRST_WITHIN_S = 120.0
_LOOK_S = 0.05
_END_S = 30.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each handler and share of failures."""
    with _side(bed, options) as side:
        side.bare({})
        side.ours(next(iter(_HANDLERS)), 0.0)
        for handler in _HANDLERS:
            for failing in _FAILING:
                yield _result(side, handler, failing)


def run_dataframe(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for a DataFrame with each share of failures, one for a table, and one for the start of a job."""
    with _side(bed, options) as side:
        side.bare({})
        side.ours(_DATAFRAME, 0.0)
        for failing in _FAILING:
            yield _result(side, _DATAFRAME, failing)
        side.append(ours=False)
        side.append(ours=True)
        yield _table(side)
    yield _first_commit(bed, options)


@contextmanager
def _side(bed: Bed, options: Options) -> Iterator["_Side"]:
    n = options.n or (20_000 if options.quick else 400_000)
    source = bed.fed(n, options)
    # As many as a query sets for its sources and their ready topics.
    consumers = {"spark.kafka.consumer.cache.capacity": str(max(64, 2 * options.partitions))}
    with spark_session("bench", _SETTINGS | consumers, (DELTA,)) as session:
        progress = _Progress(bed.kafka.pid)
        session.streams.addListener(progress)
        bed.report_progress("both, to warm up")
        yield _Side(bed, options, n, source, session, progress)
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
        workload="dataframe" if handler == _DATAFRAME else "spark",
        mode="transacted",
        params={
            "n": side.n,
            "handler": _STEPS[handler],
            "fail_ratio": failing,
            **_params(side.options),
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


def _table(side: "_Side") -> Result:
    """Measure a DataFrame whose rows go to a Delta table, beside a bare append of the same columns."""
    ours: list[float] = []
    bare: list[float] = []
    lost = doubled = 0
    for turn in range(side.options.repeat):
        side.bed.report_progress(f"a table, {turn + 1} of {side.options.repeat}")
        for rates, which in ((ours, True), (bare, False)):
            rate, rows, distinct = side.append(ours=which)
            rates.append(rate)
            lost, doubled = lost + side.n - distinct, doubled + rows - distinct
    rate, limit = median(ours), median(bare)
    return Result(
        workload="dataframe",
        mode="transacted",
        params={"n": side.n, "handler": "DataFrame to a table", **_params(side.options)},
        records_per_s=round(rate),
        baseline=Baseline(name="Spark's own append", records_per_s=round(limit)),
        ratio=round(rate / limit, 3),
        lost=lost,
        doubled=doubled,
        details={"runs": [round(each) for each in ours], "baseline_runs": [round(each) for each in bare]},
    )


def _first_commit(bed: Bed, options: Options) -> Result:
    """Measure from the start of a job's process to its first committed record, beside a bare job."""
    source = bed.fed(_FIRST_RECORDS, options)
    ours: list[float] = []
    bare: list[float] = []
    for turn in range(options.repeat):
        bed.report_progress(f"the start of a job, {turn + 1} of {options.repeat}")
        for seconds, job in ((ours, "ours"), (bare, "bare")):
            target = bed.topic(job, options.partitions)
            pipeline = {"checkpoint": "checkpoint"}
            with bed.team(source, _VECTOR, options.with_changes(slots=1), pipeline=pipeline, **_PIPELINE) as team:
                with bed.cluster.follow(target) as committed:
                    began_s = time.monotonic()
                    actor = bed.start(f"spark_jobs:{job}", source=source, target=target, config=str(team.file))
                    committed.reach(1, within_s=_FIRST_WITHIN_S)
                    seconds.append(time.monotonic() - began_s)
                actor.result()
    took, limit = median(ours), median(bare)
    return Result(
        workload="dataframe",
        mode="transacted",
        params={"n": _FIRST_RECORDS, "handler": "DataFrame, start to first commit", **_params(options)},
        ratio=round(took / limit, 3),
        seconds=round(took, 2),
        details={
            "seconds": [round(each, 2) for each in ours],
            "baseline_seconds": [round(each, 2) for each in bare],
        },
    )


def _params(options: Options) -> dict[str, object]:
    return options.params("value_bytes", "keys", "partitions", "repeat")


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

    ended_s: float
    """When Spark reported its end (monotonic)."""


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
                _MicroBatch(
                    progress.numInputRows, progress.durationMs["triggerExecution"] / 1000, cpu_s, time.monotonic()
                )
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
        frame = self._read(reading).select("key", "value").mapInArrow(_identity, "key binary, value binary")
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

    def _read(self, reading: Mapping[str, str]) -> DataFrame:
        return (
            self.session.readStream.format("kafka")
            .options(**reading)
            .option("kafka.bootstrap.servers", self.bed.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(self.max_micro_batch))
            .load()
        )

    def ours(self, handler: str, failing: float) -> tuple[_Steady, int, int]:
        """Run our query; return its figures and the numbers of lost and doubled records."""
        output = self.bed.topic("output", self.options.partitions)
        with self._team("VectorEmits" if handler == _DATAFRAME else handler) as team:
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

    @contextmanager
    def _team(self, handler: str) -> Iterator[Team]:
        pipeline = {"checkpoint": "checkpoint", "maxOffsetsPerTrigger": self.max_micro_batch}
        section = {"handler_section": {"vectorized": handler != "Emits", "deadline": "60s"}}
        how = {**_PIPELINE, **section, "pipeline": pipeline}
        with self.bed.team(self.source, f"spark_handlers:{handler}", self.options.with_changes(slots=1), **how) as team:
            yield team

    def append(self, *, ours: bool) -> tuple[float, int, int]:
        """Append the source to a new table; return records/s, rows and distinct records.

        The rate is that from the end of the first micro-batch to the end of the job, with all that it does then.
        """
        table = str(self.bed.folder / f"table-{uuid.uuid4().hex[:8]}")
        if ours:
            through = self.bed.topic("through", self.options.partitions)
            with self._team("VectorEmits") as team:
                r = Redelivery.load(team.file)
                query = r.start(self.session, _columns, to=r.delta(table, through=through), available_now=True)
                query.awaitTermination()
        else:
            writer = _columns(self._read({})).writeStream.format("delta").trigger(availableNow=True)
            writer.option("checkpointLocation", f"{table}-checkpoint").start(table).awaitTermination()
        ended_s = time.monotonic()
        rows = self.session.read.format("delta").load(table)
        figures = rows.agg(F.count("*"), F.count_distinct("number")).first()
        assert figures is not None
        self._until_reported()
        first, self.progress.batches = self.progress.batches[0], []
        return (self.n - first.rows) / (ended_s - first.ended_s), figures[0], figures[1]

    def _transform(self, team: Team, output: str, failing: float) -> None:
        """Run a transformation whose check is an expression of Spark: a tenth of the records fails, or none."""
        r = Redelivery.load(team.file)
        chosen = F.substring("value", NUMBER_DIGITS, 1) == F.lit(b"0")
        failed = F.when(chosen if failing else F.lit(False), r.retry("chosen to fail"))  # noqa: FBT003 - a value
        to = r.kafka(output, value=F.col("value"))
        query = r.start(self.session, lambda given: given.withColumn("_failure", failed), to=to, available_now=True)
        query.awaitTermination()

    def _until_reported(self) -> None:
        end_s = time.monotonic() + _END_S
        while sum(each.rows for each in self.progress.batches) < self.n and time.monotonic() < end_s:
            time.sleep(_LOOK_S)

    def _steady(self) -> _Steady:
        self._until_reported()
        (first, *rest), self.progress.batches = self.progress.batches, []
        rows = sum(each.rows for each in rest)
        return _Steady(rows / sum(each.seconds for each in rest), (rest[-1].cpu_s - first.cpu_s) / rows * 1e6)


def _columns(records: DataFrame) -> DataFrame:
    """Return two columns of data for each record, beside its record if it has one."""
    text = F.col("value").cast("string")
    data = F.substring(text, 1, NUMBER_DIGITS).cast("bigint").alias("number"), text.alias("text")
    return records.select(*([] if "_record" not in records.columns else ["_record"]), *data)


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
