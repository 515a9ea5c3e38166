"""What a run says at its end when its time was over before everything was handled."""

from datetime import timedelta
from typing import Any

import pytest

from kafka_redelivery.pipeline.errors import StreamUnsettledError
from kafka_redelivery.pipeline.stream.available_now import AvailableNow
from kafka_redelivery.pipeline.stream.query_runner import QueryRunner
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.waiting_records import WaitingRecords

WITHIN = timedelta(minutes=5)


def late() -> None:
    """Handle records until the time is over."""
    raise StreamUnsettledError("not settled in time: records are not handled yet")


def looked() -> WaitingRecords:
    """Nothing waits for a redelivery."""
    return WaitingRecords(0, None, None)


def test_a_run_that_is_late_says_so_at_its_end() -> None:
    """Handling ends without the error, so that the table can be written; left-out partitions are reported instead."""
    unused: Any = None
    shutdown = Shutdown(WITHIN)
    runner = QueryRunner(unused, shutdown, unused, unused, unused, None)
    run = AvailableNow(runner, shutdown, late, looked)
    run.handle(WITHIN)
    run.report(None)
    with pytest.raises(StreamUnsettledError, match="records are not handled yet"):
        run.report(WITHIN)
