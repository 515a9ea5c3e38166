"""A streaming query reports the metrics of a worker, and those of micro-batches."""

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.streaming import prepare, running
from tests.scenarios.running import Group
from tests.scenarios.scraping import families, free_port, get, value_of
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]

_LONG_S = 180.0
"""The first micro-batch of a session starts Python workers and handler processes."""


def lag(port: int, *topics: str) -> list[float] | None:
    """Return the lag of each topic, ``None`` until all are known."""
    found = {
        sample.labels["topic"]: sample.value
        for sample in families(port)["redelivery_lag"].samples
        if sample.labels["role"] == "stream"
    }
    return [found[topic] for topic in topics] if found.keys() == {*topics} else None


def test_the_endpoint_reports_the_query(spark: SparkSession, group: Group) -> None:
    """Outcomes and micro-batches are counted, lag reaches zero despite transaction markers, and probes are correct."""
    port = free_port()
    prepare(group, metrics={"port": port, "host": "127.0.0.1"}, pipeline={"maxOffsetsPerTrigger": 40})
    group.start("scheduler", "s1", "metrics.port=0")
    group.send([["ok"]] * 60 + [["raise", "ok"]] * 5 + [["reject"]] * 3)
    with running(group, spark):
        until(lambda: get(port, "/readyz")[0] == 200, "the query is ready", within_s=_LONG_S)
        ended = "redelivery_deliveries_total"
        until(lambda: value_of(port, ended, outcome="recovered") == 5, "all has come to an end", within_s=_LONG_S)
        # Spark reports a micro-batch a little after its end.
        until(lambda: value_of(port, "redelivery_micro_batch_records_sum") == 73, "its micro-batches are reported")
        until(lambda: lag(port, group.source, group.ready) == [0, 0], "nothing is left")

        assert value_of(port, "redelivery_deliveries_total", outcome="acked") == 60
        assert value_of(port, "redelivery_redeliveries_total", attempt="1") == 5
        assert value_of(port, "redelivery_successes_total", attempt="2") == 5
        assert value_of(port, "redelivery_dead_letters_total", reason="rejected") == 3
        assert value_of(port, "redelivery_delivery_lateness_seconds_count") == 5
        assert value_of(port, "redelivery_micro_batch_seconds_count") >= 3
        assert value_of(port, "redelivery_behind_latest_offsets") == 0
        assert value_of(port, "redelivery_assigned_partitions") == 4
        assert get(port, "/healthz")[0] == 200
        assert group.name in {query.name for query in spark.streams.active}
    assert get(port, "/healthz")[0] == 0
