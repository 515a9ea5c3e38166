"""What a run says at its end when its time was over before everything was handled."""

from dataclasses import fields
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import IntegerType, StructType

from kafka_redelivery.pipeline.errors import StreamHaltedError, StreamUnsettledError
from kafka_redelivery.pipeline.stream import queries
from kafka_redelivery.pipeline.stream.queries import Queries
from kafka_redelivery.pipeline.stream.settling import WaitingRecords
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.spark import Redelivery, _transformation
from kafka_redelivery.transport.protocols import Partition

WITHIN = timedelta(minutes=5)


class Late(Queries):
    """Queries whose time is over before everything is handled; nothing waits for a redelivery."""

    def _handle_once(self, end_s: float | None) -> None:
        del end_s
        raise StreamUnsettledError("not settled in time: records are not handled yet")

    def _waiting(self) -> WaitingRecords:
        return WaitingRecords(0)


def late(problem: str, *away: str) -> Late:
    """Return queries without a table, which leave partitions out if there is a problem."""
    given: dict[str, Any] = dict.fromkeys(each.name for each in fields(Queries))
    given |= {"shutdown": Shutdown(WITHIN), "lost": SimpleNamespace(problem=problem)}
    return Late(
        **given | {"gate": SimpleNamespace(away=(), lasts=bool(away)), "batches": SimpleNamespace(failure=None)}
    )


def test_a_run_that_is_late_says_so_at_its_end() -> None:
    """Left-out partitions are reported instead."""
    with pytest.raises(StreamUnsettledError, match="records are not handled yet"):
        late("").run_available_now(WITHIN)
    with pytest.raises(StreamHaltedError, match="orders-0 is left out"):
        late("orders-0 is left out").run_available_now(WITHIN)


def test_registries_of_a_transformation_are_asked() -> None:
    """Its tasks decode nothing: the settings of its query have no formats."""
    value = {"format": "avro", "registry": {"url": "http://127.0.0.1:1"}}
    source = {"topic": "orders", "value": value}
    r = Redelivery(group="billing", kafka={"bootstrap.servers": "nowhere"}, sources=[source])
    found = _transformation(r._app.definition(), lambda given: given, StructType().add("n", IntegerType()))
    given: dict[str, Any] = dict.fromkeys(each.name for each in fields(Queries))
    given |= {"settings": found.settings_of_query(), "batches": SimpleNamespace(transformation=found)}
    (problem,) = Queries(**given)._registries_away()
    assert "http://127.0.0.1:1" in problem


@pytest.mark.parametrize("within", [None, WITHIN])
def test_a_run_that_an_outage_has_ended_says_how_many_records_wait(
    monkeypatch: pytest.MonkeyPatch, within: timedelta | None
) -> None:
    """If they cannot be counted, it ends with the same error."""
    monkeypatch.setattr(queries, "unhandled_records", lambda *_: 1_200)
    text = "records are not handled yet; 1,200 records of sources and ready topics have no outcome"
    with pytest.raises(StreamUnsettledError, match=text):
        late("", "bank").run_available_now(within)
    monkeypatch.setattr(queries, "unhandled_records", None)
    with pytest.raises(StreamUnsettledError, match=r"records are not handled yet$"):
        late("", "bank").run_available_now(within)


class Restarted(Queries):
    """Queries of which the one that handles records is started twice."""

    def _handling(self, starts: Any) -> Any:  # noqa: ANN401 - what is run below
        return sorted(starts)


def test_a_restart_reads_partitions_that_were_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise Spark, which has found them, would miss their start offsets."""
    settings = Redelivery(group="g", kafka={"bootstrap.servers": "nowhere"}, sources=["s"]).settings
    ready = settings.naming().ready_topic("s")
    numbers = iter([1, 2])
    monkeypatch.setattr(queries, "partition_counts", lambda _: dict.fromkeys(("s", ready), next(numbers)))
    monkeypatch.setattr(queries, "start_offsets", lambda _settings, wanted, *_: dict.fromkeys(wanted, 0))
    counts, fake = {"s": 1, ready: 1}, MagicMock(failure=None)
    fake.leave_out = lambda starts, _expired: starts
    given: dict[str, Any] = dict.fromkeys((each.name for each in fields(Queries)), fake)
    read: list[Any] = []

    def run(query: Any) -> bool:  # noqa: ANN401 - as above
        read.append(query)
        return len(read) < 2

    Restarted(**given | {"settings": settings, "counts": counts, "shutdown": Shutdown(WITHIN)})._handle(run)
    assert [len(each) for each in read] == [2, 4]
    assert Partition("s", 1) in read[1]
    assert counts["s"] == 2, "tasks know them, too"
