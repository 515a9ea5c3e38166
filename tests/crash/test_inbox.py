"""Workers that are killed at random times under load do each effect in the database of their handler exactly once."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import psycopg
import pytest

from kafka_redelivery.consumers.inbox import schema
from tests import postgres
from tests.crash.load import SHORT_SESSION
from tests.inboxes import EFFECTS
from tests.scenarios.inbox_handlers import DATABASE
from tests.scenarios.running import Group, exactly

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow]

_SCRIPTS = {0: ["inside", "ok"], 1: ["after", "ok"], 2: ["inside", "after", "ok"], 3: ["after", "after"]}
"""By the last digit of a number. The effect of one with 3 is done although the record is dead-lettered."""


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with the two tables, for the handlers of the group."""
    if request.param == "postgresql":
        with postgres.server() as address:
            with psycopg.connect(address) as connection:
                connection.execute(schema("postgresql") + EFFECTS)
            monkeypatch.setenv(DATABASE, address)
            yield address
    else:
        path = str(tmp_path / "shop.db")
        with closing(sqlite3.connect(path)) as file:
            file.executescript(f"PRAGMA journal_mode = WAL; {schema('sqlite')} {EFFECTS}")
        monkeypatch.setenv(DATABASE, path)
        yield path


def numbers(database: str, query: str) -> Counter[int]:
    """What a query finds, and how often."""
    if "://" in database:
        with psycopg.connect(database) as connection:
            return Counter(number for (number,) in connection.execute(query.encode()))
    with closing(sqlite3.connect(database)) as file:
        return Counter(number for (number,) in file.execute(query))


@pytest.mark.parametrize(
    ("database", "handler", "records", "kills"),
    [
        pytest.param("postgresql", "charge", 400, 2, id="postgresql"),
        pytest.param("postgresql", "charge", 4000, 20, id="postgresql-long", marks=pytest.mark.full),
        pytest.param("postgresql", "charge_async", 4000, 20, id="postgresql-async", marks=pytest.mark.full),
        pytest.param("sqlite", "charge", 4000, 20, id="sqlite", marks=pytest.mark.full),
    ],
    indirect=["database"],
)
def test_killed_at_random(group: Group, database: str, handler: str, records: int, kills: int) -> None:
    """Outputs and dead letters are written once, too, and nothing is pending."""
    draws = Random(f"{handler}{kills}")  # noqa: S311 - times of death
    group.prepare(
        partitions=4,
        handler={"slots": 4, "callable": f"tests.scenarios.inbox_handlers:{handler}"},
        limits={"batch": 20, "bufferRecords": 200},
        kafka=SHORT_SESSION,
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 3, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}
        },
    )
    group.scheduler()
    workers = {name: group.worker(name) for name in ("one", "two")}
    group.send(_SCRIPTS.get(n % 10, ["ok"]) for n in range(records))
    dead = {n for n in range(records) if n % 10 == 3}
    with group.cluster.follow(group.output) as tail:
        for number in range(kills):
            tail.reach(int((number + 0.5) / kills * (records - len(dead)) * 0.8))
            time.sleep(draws.uniform(0, 0.2))
            name = draws.choice(list(workers))
            workers[name].kill()
            assert len(tail.records) < records - len(dead), "the kill came too late to prove anything"
            workers[name] = group.worker(name)
    group.settle()
    group.stop()
    assert numbers(database, "SELECT number FROM effects") == exactly(set(range(records)))
    assert numbers(database, "SELECT count(*) FROM redelivery_inbox") == Counter([records])
    assert group.outputs() == exactly(set(range(records)) - dead)
    assert group.dead() == exactly(dead)
    assert group.pending() == []
