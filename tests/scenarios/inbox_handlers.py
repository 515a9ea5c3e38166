"""Handlers with an effect in a database, which a block of `context.once()` does. A script says where they fail.

Steps of a script: `inside` raises in the block after its effect, `after` behind the block, `away` behind it while a
file says that the next system is away, all others succeed.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg

from kafka_redelivery import Context, Record
from tests.scenarios.deliveries import LOG
from tests.scenarios.handlers import AWAY, OUTPUT

DATABASE: Final = "SCENARIO_DATABASE"
"""The environment variable with the URL of a PostgreSQL, or the path of an SQLite database."""


def charge(record: Record, context: Context) -> None:
    """Insert the number of the record once, then emit it."""
    address = os.environ[DATABASE]
    if "://" in address:
        with psycopg.connect(address) as connection, context.once(connection) as first:
            if first:
                connection.execute("INSERT INTO effects VALUES (%s)", (record.value["n"],))
                _fail("inside", record, context)
    else:
        with closing(sqlite3.connect(address, timeout=60)) as file:
            file.execute("PRAGMA synchronous = OFF")  # these tests kill processes, not the machine
            with context.once(file) as first:
                if first:
                    file.execute("INSERT INTO effects VALUES (?)", (record.value["n"],))
                    _fail("inside", record, context)
    _finish(record, context)


async def charge_async(record: Record, context: Context) -> None:
    """Do the same on an event loop, in PostgreSQL."""
    connection = await psycopg.AsyncConnection.connect(os.environ[DATABASE])
    async with connection, context.once(connection) as first:
        if first:
            await connection.execute("INSERT INTO effects VALUES (%s)", (record.value["n"],))
            _fail("inside", record, context)
    _finish(record, context)


def _finish(record: Record, context: Context) -> None:
    _fail("after", record, context)
    if (Path(os.environ[LOG]).parent / AWAY).exists():
        _fail("away", record, context)
    context.send(os.environ[OUTPUT], str(record.value["n"]).encode())


def _fail(where: str, record: Record, context: Context) -> None:
    steps = record.value["do"]
    if steps[min(context.attempt, len(steps)) - 1] == where:
        raise ConnectionError(where)
