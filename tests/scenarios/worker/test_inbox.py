"""A handler with a block of ``context.once()`` does its effect once for each record, and for no record not at all."""

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_redelivery.consumers.inbox import schema
from tests.inboxes import EFFECTS
from tests.scenarios.commands import redelivery
from tests.scenarios.handlers import AWAY
from tests.scenarios.inbox_handlers import DATABASE
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

_HANDLER = {"callable": "tests.scenarios.inbox_handlers:charge", "slots": 2}


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sqlite3.Connection:
    """A database for the handlers of the group, and a connection of the test."""
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.executescript(f"PRAGMA journal_mode = WAL; {schema('sqlite')} {EFFECTS}")
    monkeypatch.setenv(DATABASE, str(path))
    return connection


def effects(database: sqlite3.Connection) -> list[int]:
    """All effects."""
    return [number for (number,) in database.execute("SELECT number FROM effects ORDER BY number")]


@pytest.mark.parametrize("when", ["between two runs", "while a worker runs"])
def test_a_topic_that_was_created_again_is_not_skipped(group: Group, database: sqlite3.Connection, when: str) -> None:
    """Though its records have the offsets and the timestamps of the older ones, and some fail behind their block.

    A worker that runs reads some records of the new topic twice, because it notices after seconds that it is another
    one. These are not done twice.
    """
    at_ms, partitions = time.time_ns() // 1_000_000, 2

    def send(first: int, number: int) -> None:
        records = [
            script(n, ["after", "ok"] if n % 5 == 0 else ["ok"], partition=n % partitions)
            for n in range(first, first + number)
        ]
        group.cluster.produce(group.source, [replace(each, timestamp_ms=at_ms) for each in records])

    with closing(database):
        group.prepare(partitions=partitions, handler=_HANDLER)
        worker, _ = group.worker(), group.scheduler()
        until(lambda: len(group.cluster.committed(group.name, group.source)) == partitions, "the worker has begun")
        send(0, 100)
        until(lambda: group.outputs() == exactly(range(100)), "the older one is handled")
        group.settle()
        if when == "between two runs":
            worker.stop()
        group.cluster.delete(group.source)
        group.cluster.create(group.source, partitions=partitions)
        send(1000, 200)
        if when == "between two runs":
            worker = group.worker()
        handled = {*range(100), *range(1000, 1200)}
        until(lambda: group.outputs().keys() == handled, "the new one is handled")
        group.settle()
        assert worker.running
        group.stop()
        assert effects(database) == sorted(handled)
        [(rows, groups)] = database.execute(
            "SELECT count(*), group_concat(DISTINCT consumer_group) FROM redelivery_inbox"
        )
        assert (rows, groups) == (300, group.name)


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_dead_letter_that_is_sent_again(group: Group, database: sqlite3.Connection, isolation: str) -> None:
    """It is the same record: its effect was committed before its handler failed, so only what follows is done."""
    with closing(database):
        group.prepare(
            handler=_HANDLER | {"isolation": isolation},
            policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100}},
        )
        away = group.folder / AWAY
        away.touch()
        group.worker()
        group.scheduler()
        group.send([["away"]] * 10)
        until(lambda: group.dead() == exactly(range(10)), "all are dead")
        assert effects(database) == list(range(10))
        away.unlink()
        sent = redelivery("dlq", "redrive", "--yes", file=group.file)
        assert sent.code == 0, sent.err
        until(lambda: group.outputs() == exactly(range(10)), "they are handled again")
        group.settle()
        group.stop()
        assert effects(database) == list(range(10))
