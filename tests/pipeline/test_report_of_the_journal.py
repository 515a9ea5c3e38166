"""The figures that a report derives from the journal."""

import json
from typing import Final

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from kafka_redelivery.pipeline.frames import Frames, journal_ranges
from kafka_redelivery.pipeline.report import figures
from kafka_redelivery.pipeline.report.report import _acked

pytestmark = [pytest.mark.spark]

_FIRST_S: Final = 1_767_225_600


def test_attempts_and_times(spark: SparkSession) -> None:
    """Each failed record counts at its last attempt, with its duration. Entries of other groups do not count."""
    journal = _journal(
        spark,
        (0, "g", {"acked": [[0, 9], [20, 20]], "retried": [[10, 15]], "dead_lettered": [[16, 16]]}),
        (2, "g", {"recovered": [[10, 11]], "retried": [[12, 15]]}),
        (6, "g", {"retried": [[12, 14]], "discarded": [[15, 15]]}),
        (14, "g", {"recovered": [[12, 12]], "dead_lettered": [[13, 14]], "acked": [[21, 21]]}),
        # It waits for its second delivery.
        (1, "g", {"retried": [[17, 17]]}),
        # Redriven, and then a success.
        (30, "g", {"recovered": [[14, 14]]}),
        (1, "another", {"acked": [[0, 99]], "retried": [[50, 60]]}),
        (1, "g", {"acked": "all"}),
        # Another program has written them: a table of these records would not fit anywhere.
        (1, "g", {"retried": [[100, 2**62]], "dead_lettered": [[0, 2**63 - 1]]}),
        (1, "g", {"discarded": [[-5, 3]], "recovered": [[9, 3]]}),
    )

    histories = figures.record_histories(journal).persist()

    assert _acked(journal) == 12
    assert [_plain(row) for row in figures.survival(histories).collect()] == [
        (1, 8, 0, 1, 0),
        (2, 6, 2, 0, 0),
        (3, 4, 0, 0, 1),
        (4, 3, 2, 1, 0),
    ]
    times = figures.recovery_times(histories).collect()
    assert [(row["topic"], row["recovered"], row["p50"], row["longest"]) for row in times] == [("in", 4, 2.0, 30.0)]
    curve = figures.recovery_curve(histories)
    assert (len(curve), curve[0], curve[49], curve[74], curve[99]) == (100, 2.0, 2.0, 14.0, 30.0)


def test_an_attempt_without_an_outcome_has_a_row(spark: SparkSession) -> None:
    """The curve over the attempts has no gap."""
    journal = _journal(
        spark,
        (0, "g", {"retried": [[0, 1]]}),
        (1, "g", {"retried": [[0, 1]]}),
        (2, "g", {"recovered": [[0, 0]], "dead_lettered": [[1, 1]]}),
    )

    found = figures.survival(figures.record_histories(journal)).collect()

    assert [_plain(row) for row in found] == [(1, 2, 0, 0, 0), (2, 2, 0, 0, 0), (3, 2, 1, 1, 0)]


def _journal(spark: SparkSession, *entries: tuple[int, str, dict[str, object]]) -> DataFrame:
    """Create journal entries from the second at which each was written."""
    rows = [
        (json.dumps({"v": 1, "group": group, "topic": "in", "partition": 0} | on_progress).encode(), _FIRST_S + second)
        for second, group, on_progress in entries
    ]
    records = Frames(spark, {}).local(rows, "value binary, second bigint")
    return journal_ranges(records.selectExpr("value", "timestamp_seconds(second) AS at"), "g", "at")


def _plain(row: Row) -> tuple[int, ...]:
    return tuple(row[name] for name in ("attempt", "reached", "recovered", "dead", "discarded"))
