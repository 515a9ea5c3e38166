"""The inbox in PostgreSQL: of several deliveries at the same time exactly one does the effect."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest
from psycopg import IsolationLevel
from sqlalchemy import create_engine

from kafka_redelivery.consumers.inbox import Once, pruning, schema
from tests import postgres
from tests.inboxes import EFFECTS, POSTGRESQL, LostError, block, deliver, opened, record
from tests.scenarios.waiting import until


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """One server for these tests."""
    with postgres.server() as address:
        with psycopg.connect(address) as connection:
            connection.execute(schema("postgresql") + EFFECTS)
        yield address


@pytest.fixture
def database(server: str) -> str:
    """Its database, with empty tables."""
    with psycopg.connect(server) as connection:
        connection.execute("TRUNCATE redelivery_inbox, effects")
    return server


def effects(address: str) -> list[int]:
    """The effects that are committed."""
    with psycopg.connect(address) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM effects ORDER BY number")]


def waits(address: str) -> bool:
    """Whether a connection waits for another one's transaction."""
    with psycopg.connect(address) as connection:
        return connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone() is not None


each_kind = pytest.mark.parametrize("kind", POSTGRESQL)


@each_kind
def test_an_effect_is_done_once(database: str, kind: str) -> None:
    """It is done by the delivery after one that failed, and then never again."""
    with pytest.raises(LostError):
        asyncio.run(deliver(kind, database, record(), fail=True))
    assert effects(database) == []
    assert [asyncio.run(deliver(kind, database, record())) for _ in range(3)] == [True, False, False]
    assert effects(database) == [7]


@each_kind
def test_a_transaction_of_the_handler(database: str, kind: str) -> None:
    """With ``commit=False`` the handler commits; without it an open transaction is refused, also if it only reads."""

    async def handle() -> None:
        async with opened(kind, database) as (connection, execute):
            if kind == "psycopg-autocommit":
                with pytest.raises(RuntimeError, match="autocommit"):
                    async with block(kind, connection, record(), commit=False):
                        pytest.fail("the block was entered")
                await execute("BEGIN")
            await execute("SELECT 1")
            with pytest.raises(RuntimeError, match="a transaction is open"):
                async with block(kind, connection, record()):
                    pytest.fail("the block was entered")
            async with block(kind, connection, record(), commit=False) as first:
                assert first
            ended = connection.rollback()
            if kind.startswith("async"):
                await ended

    asyncio.run(handle())
    assert asyncio.run(deliver(kind, database, record()))


@each_kind
@pytest.mark.parametrize("commit", [True, False])
def test_a_block_that_goes_on_after_a_failed_statement(
    database: str,
    kind: str,
    commit: bool,  # noqa: FBT001 - a parameter
) -> None:
    """PostgreSQL answers its COMMIT with a rollback, and no driver reports that. After a savepoint all is well."""

    async def handle(*, savepoint: bool) -> None:
        async with opened(kind, database) as (connection, execute):
            if kind == "psycopg-autocommit" and not commit:
                await execute("BEGIN")
            async with block(kind, connection, record(), commit=commit) as first:
                assert first
                if savepoint:
                    await execute("SAVEPOINT own")
                with suppress(Exception):
                    await execute("INSERT INTO effects VALUES (NULL)")
                if savepoint:
                    await execute("ROLLBACK TO own")
                    await execute("INSERT INTO effects VALUES (7)")
            if not commit:
                ended = connection.commit()
                if kind.startswith("async"):
                    await ended

    with pytest.raises(RuntimeError, match="would be lost"):
        asyncio.run(handle(savepoint=False))
    assert effects(database) == []
    asyncio.run(handle(savepoint=True))
    assert effects(database) == [7]


_DJANGO = """
import sys
from urllib.parse import parse_qs, urlsplit
from django.conf import settings
host = parse_qs(urlsplit(sys.argv[1]).query)["host"][0]
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "tests", "HOST": host
}})
import django
django.setup()
from django.db import IntegrityError, connection
from tests.inboxes import record
from kafka_redelivery.consumers.inbox import Once

with connection.cursor() as cursor:
    try:
        with Once(connection, record()) as first:
            if first:
                try:
                    cursor.execute("INSERT INTO effects VALUES (NULL)")
                except IntegrityError:
                    pass
    except RuntimeError as error:
        print(error)
    with Once(connection, record()) as first:
        if first:
            cursor.execute("INSERT INTO effects VALUES (7)")
"""


def test_a_failed_statement_of_a_cursor_of_django(database: str) -> None:
    """Django notices only those of its models and of ``atomic()``."""
    ended = subprocess.run([sys.executable, "-c", _DJANGO, database], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "would be lost" in ended.stdout
    assert effects(database) == [7]


@pytest.mark.parametrize("ends_well", [True, False])
def test_the_successor_waits_for_the_process_that_was_taken_for_dead(
    database: str,
    ends_well: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Under READ COMMITTED it is the first only if the other one's transaction is rolled back."""
    held: Future[None] = Future()
    inside = threading.Event()

    def zombie() -> bool:
        with psycopg.connect(database) as connection, suppress(LostError), Once(connection, record()) as first:
            connection.execute("INSERT INTO effects VALUES (1)")
            assert first
            inside.set()
            held.result(60)
            if not ends_well:
                raise LostError
        return True

    with ThreadPoolExecutor(2) as threads:
        threads.submit(zombie)
        assert inside.wait(60)
        successor = threads.submit(asyncio.run, deliver("psycopg", database, record(), 2))
        try:
            until(lambda: waits(database), "the successor waits")
            assert not successor.done()
        finally:
            held.set_result(None)
        assert successor.result(60) is not ends_well
    assert effects(database) == ([1] if ends_well else [2])


def test_a_stricter_isolation(database: str) -> None:
    """Under REPEATABLE READ the second fails instead, is delivered again, and is not the first."""
    with psycopg.connect(database) as connection, psycopg.connect(database) as other:
        connection.isolation_level = other.isolation_level = IsolationLevel.REPEATABLE_READ
        other.execute("SELECT 1 FROM effects")
        with Once(connection, record()) as first:
            assert first
        with pytest.raises(psycopg.errors.SerializationFailure), Once(other, record(), commit=False):
            pytest.fail("the block was entered")
    assert not asyncio.run(deliver("psycopg", database, record()))


def test_deliveries_at_the_same_time(database: str) -> None:
    """Eight threads get the same records in the same order; some of their calls fail."""
    begin = threading.Barrier(8)

    def handle(number: int) -> int:
        done = 0
        begin.wait(60)
        with psycopg.connect(database) as connection:
            for offset in range(60):
                with suppress(LostError), Once(connection, record(offset)) as first:
                    if first:
                        connection.execute("INSERT INTO effects VALUES (%s)", (offset,))
                        if number < 7 and offset % 3 == 0:
                            raise LostError
                        done += 1
            # The last ones to fail leave the record to a later connection, as a redelivery does.
            for offset in range(60):
                with Once(connection, record(offset)) as first:
                    if first:
                        connection.execute("INSERT INTO effects VALUES (%s)", (offset,))
                        done += 1
        return done

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(handle, range(8))) == 60
    assert effects(database) == list(range(60))


def test_autocommit_of_an_engine(database: str) -> None:
    """SQLAlchemy begins nothing in the database then."""
    engine = create_engine(database.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(RuntimeError, match="autocommit"), Once(connection, record()):
        pytest.fail("the block was entered")
    engine.dispose()
    assert asyncio.run(deliver("psycopg", database, record()))


def test_a_block_cannot_commit_itself(database: str) -> None:
    """Psycopg refuses it."""
    with (
        psycopg.connect(database) as connection,
        pytest.raises(psycopg.ProgrammingError, match="forbidden"),
        Once(connection, record()),
    ):
        connection.commit()


def test_a_missing_table(server: str) -> None:
    """It is never created by the way; the error names what prints it."""
    with psycopg.connect(server, options="-c search_path=elsewhere") as connection:
        with pytest.raises(psycopg.errors.UndefinedTable) as raised, Once(connection, record()):
            pytest.fail("the block was entered")
        assert "redelivery inbox sql" in raised.value.__notes__[0]


def test_the_table_is_created_and_pruned(database: str) -> None:
    """The statements may run again."""
    for offset in (1, 2):
        asyncio.run(deliver("psycopg", database, record(offset)))
    with psycopg.connect(database) as connection:
        connection.execute(schema("postgresql"))
        connection.execute(
            "UPDATE redelivery_inbox SET done_at = now() - interval '3 days' WHERE message_id LIKE '%@1'"
        )
        assert connection.execute(pruning("postgresql", timedelta(days=4))).rowcount == 0
        assert connection.execute(pruning("postgresql", timedelta(days=2))).rowcount == 1
        assert connection.execute("SELECT message_id FROM redelivery_inbox").fetchall() == [("orders-3@2",)]


def test_the_handler_needs_no_other_right(database: str) -> None:
    """It only inserts, so it can neither read nor delete what others have done."""
    with psycopg.connect(database) as connection:
        connection.execute("DROP ROLE IF EXISTS shop; CREATE ROLE shop LOGIN; GRANT INSERT ON redelivery_inbox TO shop")
    with psycopg.connect(database.replace("tests@", "shop@")) as connection:
        for expected in (True, False):
            with Once(connection, record()) as first:
                assert bool(first) is expected
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT 1 FROM redelivery_inbox")
    with psycopg.connect(database) as connection:
        connection.execute("DROP OWNED BY shop; DROP ROLE shop")
