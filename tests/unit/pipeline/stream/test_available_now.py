"""What a run says at its end when its time was over before everything was handled."""

from dataclasses import fields
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_redelivery.pipeline.errors import StreamHaltedError, StreamUnsettledError
from kafka_redelivery.pipeline.stream.queries import Queries
from kafka_redelivery.pipeline.stream.settling import WaitingRecords
from kafka_redelivery.pipeline.stream.shutdown import Shutdown

WITHIN = timedelta(minutes=5)


class Late(Queries):
    """Queries whose time is over before everything is handled; nothing waits for a redelivery."""

    def _handle_once(self, end_s: float | None) -> None:
        del end_s
        raise StreamUnsettledError("not settled in time: records are not handled yet")

    def _waiting(self) -> WaitingRecords:
        return WaitingRecords(0)


def late(problem: str) -> Late:
    """Return queries without a table, which leave partitions out if there is a problem."""
    given: dict[str, Any] = dict.fromkeys(each.name for each in fields(Queries))
    return Late(**given | {"shutdown": Shutdown(WITHIN), "lost": SimpleNamespace(problem=problem)})


def test_a_run_that_is_late_says_so_at_its_end() -> None:
    """Left-out partitions are reported instead."""
    with pytest.raises(StreamUnsettledError, match="records are not handled yet"):
        late("").run_available_now(WITHIN)
    with pytest.raises(StreamHaltedError, match="orders-0 is left out"):
        late("orders-0 is left out").run_available_now(WITHIN)
