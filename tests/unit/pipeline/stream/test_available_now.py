"""What a run says at its end when its time was over before everything was handled."""

from dataclasses import fields
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructType

from kafka_redelivery.pipeline.errors import StreamHaltedError, StreamUnsettledError
from kafka_redelivery.pipeline.stream import queries
from kafka_redelivery.pipeline.stream.queries import Queries
from kafka_redelivery.pipeline.stream.settling import WaitingRecords
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.spark import Redelivery, _transformation

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
