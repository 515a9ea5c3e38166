"""``context.once()`` names the record by what is the same in all of its deliveries."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_redelivery import Batch, Context, HandlerKit, JsonCodec, Record, RedeliveryPolicy
from kafka_redelivery.consumers.inbox import schema
from tests.unit.consumers.failing_handlers import run
from tests.unit.consumers.records import lineage, ready, record, redelivery, route, source


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An inbox."""
    with closing(sqlite3.connect(tmp_path / "shop.db", check_same_thread=False)) as connection:
        connection.executescript(schema("sqlite"))
        yield connection


def test_a_redelivery_is_the_same_record(database: sqlite3.Connection) -> None:
    """Its topic, partition and offset in Kafka are others; the group is that of the configuration."""
    found: list[bool] = []

    def charge(_: Record, context: Context) -> None:
        with context.once(database) as first:
            found.append(bool(first))

    of_group = replace(route(), group="billing")
    run(charge, record(42, b"v", partition=5), of=source(of_group, partition=5))
    run(charge, redelivery(9, lineage(42, partition=5, deliveries=2), b"v"), of=ready(of_group, partition=1))
    run(charge, record(42, b"v", partition=5), of=source(replace(of_group, group="audit"), partition=5))
    assert found == [True, False, True]
    rows = database.execute("SELECT consumer_group, message_id, effect FROM redelivery_inbox ORDER BY 1").fetchall()
    assert rows == [("audit", "orders-5@42", ""), ("billing", "orders-5@42", "")]


def test_effects_of_one_handler(database: sqlite3.Connection) -> None:
    """Each has a name. What fails is done at the next attempt, and what was done before it is not done again."""
    done: list[str] = []

    def charge(_: Record, context: Context) -> None:
        with context.once(database, "charge") as first:
            if first:
                done.append("charge")
        with context.once(database, "mail") as first:
            if first:
                done.append(f"mail {context.attempt}")
                if context.attempt == 1:
                    raise ConnectionError

    kit = HandlerKit(charge, policy=RedeliveryPolicy(maximum_redeliveries=1), value=JsonCodec())
    assert [delivery.attempt for delivery in kit.deliver({"amount": 5})] == [1, 2]
    assert done == ["charge", "mail 1", "mail 2"]


def test_records_of_a_batch(database: sqlite3.Connection) -> None:
    """In one transaction, which a poison record rolls back; then each comes alone, and has its effect once."""
    calls: list[list[bool]] = []

    def charge(batch: Batch) -> None:
        found = []
        try:
            for each in batch:
                with batch.once(each, database, commit=False) as first:
                    found.append(bool(first))
                if each.value == "poison":
                    raise ValueError
            database.commit()
        finally:
            database.rollback()
        calls.append(found)

    kit = HandlerKit(charge, policy=RedeliveryPolicy(maximum_redeliveries=0), value=JsonCodec())
    kit.deliver_batch(["one", "poison", "two"])
    assert calls == [[True], [True]]
    kit.deliver_batch(["one", "two"])
    assert calls[2:] == [[False, True]]
    assert database.execute("SELECT count(*) FROM redelivery_inbox").fetchone() == (3,)
