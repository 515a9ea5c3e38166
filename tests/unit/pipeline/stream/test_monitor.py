"""The progress of a streaming query, as Spark says it."""

from typing import Any, cast

import pytest
from pyspark.sql.streaming.listener import SourceProgress

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import MicroBatch
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor


class _Observer:
    def __init__(self) -> None:
        self.seen: list[MicroBatch] = []

    def micro_batch(self, batch: MicroBatch) -> None:
        """Keep it."""
        self.seen.append(batch)


class _Progress:
    batchId, batchDuration, numInputRows = 7, 2_000, 3  # noqa: N815 - Spark's names

    def __init__(self, end: object, latest: object) -> None:
        source = {"description": "", "startOffset": None, "endOffset": end, "latestOffset": latest}
        rates = {"numInputRows": 3, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}
        self.sources = [SourceProgress.fromJson(source | rates)]
        self.sources[0].update(endOffset=str(end), latestOffset=str(latest))  # as PySpark 4.1 has them


class _Query:
    def __init__(self, progress: _Progress) -> None:
        self.lastProgress = progress  # noqa: N803, RUF100 - Spark's names
        self.recentProgress = [progress]


@pytest.mark.parametrize(
    ("end", "latest", "left"),
    [({"t": {"0": 5}}, {"t": {"0": 9}}, {"t": 4}), ({"t": {"0": 5}}, None, {"t": 0}), (None, None, {})],
)
def test_a_repeated_micro_batch_may_have_no_offsets(end: object, latest: object, left: dict[str, int]) -> None:
    """It was begun before the query was started, so Spark has not asked for the latest offsets."""
    observer: Any = _Observer()
    monitor = QueryMonitor(observer, Health(), None, observer)
    query: Any = _Query(_Progress(end, latest))
    monitor.progressed(query)
    monitor.progressed(query)  # nothing new
    assert observer.seen == [MicroBatch(2.0, 3, cast("Any", left))]
