"""An archive names the cause of its failed query, without the plan."""

import pytest
from pyspark.errors import PySparkException

from kafka_redelivery.pipeline.archive.archive import failed_because

_PLAN = "\n=== Streaming Query ===\nIdentifier: archive\nLogical Plan:\n~Project [cast(1 as int)]"


@pytest.mark.parametrize(
    "cause",
    [
        "[STREAM_FAILED] Query terminated: [CONCURRENT_STREAM_LOG_UPDATE] Multiple streaming jobs detected for 0.",
        "[DELTA_CONCURRENT_TRANSACTION] This error occurs when multiple streaming queries use one checkpoint.",
        "[DELTA_PROTOCOL_CHANGED] The protocol version was changed by a concurrent update.",
    ],
)
def test_another_archive_is_named(cause: str) -> None:
    """In place of what Spark or Delta say about it."""
    assert failed_because(PySparkException(cause + _PLAN), "lake/letters").startswith(
        "another archive of lake/letters runs"
    )


def test_the_plan_is_left_out() -> None:
    """It says nothing about the cause."""
    assert failed_because(PySparkException("[STREAM_FAILED] the disk is full" + _PLAN), "t") == (
        "[STREAM_FAILED] the disk is full"
    )
