"""The inbox in SQLite: an effect is done once for a record, whatever kind of connection the handler has."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.pq import PGconn, TransactionStatus
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import IntegrityError

from kafka_redelivery.consumers.inbox import Identity, Once, pruning, schema
from tests.inboxes import EFFECTS, SQLITE, LostError, block, deliver, opened, record


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A database with the table of the inbox, and one of effects."""
    path = str(tmp_path / "shop.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema("sqlite") + EFFECTS)
    return path


def effects(file: str) -> list[int]:
    """The effects that are committed."""
    with closing(sqlite3.connect(file)) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM effects ORDER BY number")]


each_kind = pytest.mark.parametrize("kind", SQLITE)


@each_kind
def test_an_effect_is_done_once(file: str, kind: str) -> None:
    """The second delivery finds the row."""
    assert asyncio.run(deliver(kind, file, record()))
    assert not asyncio.run(deliver(kind, file, record()))
    assert effects(file) == [7]


@each_kind
def test_an_effect_that_fails_is_done_by_the_next_delivery(file: str, kind: str) -> None:
    """The row and what the block has done are rolled back."""
    with pytest.raises(LostError):
        asyncio.run(deliver(kind, file, record(), fail=True))
    assert effects(file) == []
    assert asyncio.run(deliver(kind, file, record()))
    assert effects(file) == [7]


@each_kind
def test_one_connection_serves_many_records(file: str, kind: str) -> None:
    """Also after a failure, as that of a handler that opens it once."""

    async def handle() -> list[bool]:
        found = []
        async with opened(kind, file) as (connection, _):
            for offset in (1, 2, 1, 3):
                async with block(kind, connection, record(offset)) as first:
                    found.append(bool(first))
            with suppress(LostError):
                async with block(kind, connection, record(4)) as first:
                    found.append(bool(first))
                    raise LostError
            async with block(kind, connection, record(4)) as first:
                found.append(bool(first))
        return found

    assert asyncio.run(handle()) == [True, True, False, True, True, True]


@each_kind
def test_a_block_in_a_transaction_of_the_handler(file: str, kind: str) -> None:
    """With ``commit=False`` the handler commits; without it an open transaction is refused before anything is done."""

    async def handle(*, commits: bool) -> bool:
        async with opened(kind, file) as (connection, execute):
            if kind == "sqlite3-autocommit":
                await execute("BEGIN")
            await execute("INSERT INTO effects VALUES (1)")
            with pytest.raises(RuntimeError, match="a transaction is open"):
                async with block(kind, connection, record()):
                    pytest.fail("the block was entered")
            async with block(kind, connection, record(), commit=False) as first:
                found = bool(first)
            ended = connection.commit() if commits else connection.rollback()
            if kind.startswith("async"):
                await ended
        return found

    assert asyncio.run(handle(commits=False))
    assert effects(file) == []
    assert asyncio.run(handle(commits=True))
    assert not asyncio.run(handle(commits=True))
    assert effects(file) == [1, 1]


@each_kind
def test_a_block_that_never_asks(file: str, kind: str) -> None:
    """It would do its effect at each delivery, so already its first test fails."""

    async def handle() -> None:
        async with opened(kind, file) as (connection, execute), block(kind, connection, record()):
            await execute("INSERT INTO effects VALUES (1)")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="write `if first:` in it"):
            asyncio.run(handle())
    assert effects(file) == []


@pytest.mark.parametrize("kind", [each for each in SQLITE if each != "scoped-session"])
def test_a_block_that_commits_itself(file: str, kind: str) -> None:
    """What it did after that would not belong to the row."""

    async def handle() -> None:
        async with opened(kind, file) as (connection, _), block(kind, connection, record()) as first:
            assert first
            ended = connection.commit()
            if kind.startswith("async"):
                await ended

    with pytest.raises(RuntimeError, match="has ended its transaction"):
        asyncio.run(handle())


def test_the_wrong_kind_of_block(file: str) -> None:
    """It says which one is right, before anything is inserted."""

    async def handle() -> None:
        async with opened("async-connection", file) as (connection, _):
            with (
                pytest.raises(TypeError, match=r"sqlalchemy\.AsyncConnection is asynchronous; write `async with"),
                Once(connection, record()),
            ):
                pytest.fail("the block was entered")
        with closing(sqlite3.connect(file)) as plain:
            with pytest.raises(TypeError, match=r"sqlite3\.Connection is synchronous; write `with"):
                async with Once(plain, record()):
                    pytest.fail("the block was entered")
            with pytest.raises(TypeError, match="is a block"):
                bool(Once(plain, record()))

    asyncio.run(handle())
    assert asyncio.run(deliver("sqlite3", file, record()))


@pytest.mark.parametrize("commit", [True, False])
def test_autocommit_is_refused(file: str, commit: bool) -> None:  # noqa: FBT001 - a parameter
    """The row would be committed without the effect. A driver's own mode is no obstacle where the block can begin."""
    engine = create_engine(f"sqlite:///{file}", isolation_level="AUTOCOMMIT")
    with (
        engine.connect() as connection,
        pytest.raises(RuntimeError, match="autocommit"),
        Once(connection, record(), commit=commit),
    ):
        pytest.fail("the block was entered")
    engine.dispose()
    with (
        closing(sqlite3.connect(file, isolation_level=None)) as plain,
        pytest.raises(RuntimeError, match="autocommit"),
        Once(plain, record(), commit=False),
    ):
        pytest.fail("the block was entered")
    assert asyncio.run(deliver("sqlite3", file, record()))


def test_what_is_no_connection() -> None:
    """A cursor, or the engine."""
    engine = create_engine("sqlite://")
    with pytest.raises(TypeError, match=r"not sqlalchemy\.Engine"):
        Once(engine, record())


def test_a_subclass_of_a_connection(file: str) -> None:
    """Programs and extensions make their own."""

    class Own(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(file, factory=Own)) as connection, Once(connection, record()) as first:
        assert first


def test_a_missing_table(tmp_path: Path) -> None:
    """It is never created by the way; the error names what prints it."""
    with pytest.raises(sqlite3.OperationalError, match="redelivery_inbox") as raised:
        asyncio.run(deliver("sqlite3", str(tmp_path / "empty.db"), record()))
    assert "redelivery inbox sql" in raised.value.__notes__[0]


def test_each_part_of_the_identity_tells_records_apart(file: str) -> None:
    """Two groups, two effects of one handler, and the topic that was created again: other times, or other bytes."""
    others = [
        record(),
        record(8),
        record(group="audit"),
        record(effect="mail"),
        record(at_ms=6),
        record(value=b"w"),
        Identity.of("billing", "", "orders-3@7", 5, None, b"kv"),
        Identity.of("billing", "", "orders-3@7", 5, b"kv", None),
        Identity.of("billing", "", "orders-3@7", 5, b"", b"kv"),
        Identity.of("billing", "", "orders-3@7", 5, b"kv", b""),
    ]
    assert [asyncio.run(deliver("sqlite3", file, each)) for each in others] == [True] * len(others)
    assert not any(asyncio.run(deliver("sqlite3", file, each)) for each in others)


def test_the_table_may_be_created_again(file: str) -> None:
    """As a migration that is run twice."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(schema("sqlite"))


def test_old_rows_are_deleted(file: str) -> None:
    """By the clock of the database."""
    for offset in (1, 2):
        asyncio.run(deliver("sqlite3", file, record(offset)))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "UPDATE redelivery_inbox SET done_at = datetime('now', '-3 days') WHERE message_id LIKE '%@1'"
        )
        connection.execute(pruning("sqlite", timedelta(days=4)))
        assert len(connection.execute("SELECT * FROM redelivery_inbox").fetchall()) == 2
        connection.execute(pruning("sqlite", timedelta(days=2)))
        assert connection.execute("SELECT message_id FROM redelivery_inbox").fetchall() == [("orders-3@2",)]


class AlwaysOpen(sqlite3.Connection):
    """As one that Python 3.12 makes with ``autocommit=False``: after each transaction it begins another one."""

    autocommit = False

    def __init__(self, file: str) -> None:
        super().__init__(file, isolation_level=None)
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")
        self.execute("BEGIN")


def test_a_connection_of_sqlite3_that_always_has_a_transaction(file: str) -> None:
    """A block could not see what is open before it, nor a commit in it; in a transaction of the handler it may be."""
    with closing(AlwaysOpen(file)) as connection:
        with pytest.raises(RuntimeError, match="autocommit=False"), Once(connection, record()):
            pytest.fail("the block was entered")
        with Once(connection, record(), commit=False) as first:
            assert first
        connection.commit()
    assert not asyncio.run(deliver("sqlite3", file, record()))


@pytest.mark.parametrize("commit", [True, False])
def test_sqlite_rolled_back_by_itself(file: str, commit: bool) -> None:  # noqa: FBT001 - a parameter
    """SQLAlchemy does not notice it, and its commit would do nothing."""
    engine = create_engine(f"sqlite:///{file}")

    def handle() -> None:
        with engine.connect() as connection, Once(connection, record(), commit=commit) as first:
            assert first
            with suppress(IntegrityError):
                connection.execute(text("INSERT OR ROLLBACK INTO effects VALUES (NULL)"))

    with pytest.raises(RuntimeError, match="would be lost"):
        handle()
    engine.dispose()
    assert asyncio.run(deliver("sqlite3", file, record()))


class FakePsycopg:
    """A connection of psycopg 3 that says in which state its transaction is."""

    OperationalError = psycopg.OperationalError
    autocommit = False

    def __init__(self) -> None:
        self.info = SimpleNamespace(transaction_status=TransactionStatus.IDLE)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.info.transaction_status = TransactionStatus.INTRANS
        yield

    def execute(self, *_: object) -> object:
        return SimpleNamespace(rowcount=1)


class FakeAsyncPsycopg(FakePsycopg):
    """The same, asynchronous."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:  # type: ignore[override] # as in psycopg
        self.info.transaction_status = TransactionStatus.INTRANS
        yield

    async def execute(self, *_: object) -> object:
        return SimpleNamespace(rowcount=1)


FakePsycopg.__module__ = FakeAsyncPsycopg.__module__ = "psycopg"
FakePsycopg.__qualname__, FakeAsyncPsycopg.__qualname__ = "Connection", "AsyncConnection"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (TransactionStatus.INERROR, (RuntimeError, "would be lost")),
        (TransactionStatus.UNKNOWN, (psycopg.OperationalError, "the connection is lost")),
        (TransactionStatus.IDLE, (RuntimeError, "has ended its transaction")),
    ],
)
@pytest.mark.parametrize("kind", ["psycopg", "async-psycopg"])
def test_a_transaction_of_psycopg_that_cannot_commit(
    kind: str, status: TransactionStatus, error: tuple[type[Exception], str]
) -> None:
    """Psycopg commits without an error: PostgreSQL rolls back a transaction in which a statement has failed."""
    connection: Any = FakeAsyncPsycopg() if kind.startswith("async") else FakePsycopg()

    async def handle() -> None:
        async with block(kind, connection, record()) as first:
            assert first
            connection.info.transaction_status = status

    with pytest.raises(error[0], match=error[1]):
        asyncio.run(handle())


def test_a_driver_of_sqlalchemy_that_tells_no_state(file: str) -> None:
    """Asyncpg and pg8000 only say that a statement has failed when they are given another one."""
    engine = create_engine(f"sqlite:///{file}")
    said = []
    event.listen(engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    with engine.connect() as connection, Once(connection, record()) as first:
        assert first
        engine.dialect.name = "postgresql"
    engine.dispose()
    assert said[1:] == ["SELECT 1"]


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_a_lost_connection(commit: bool, autocommit: bool) -> None:  # noqa: FBT001 - parameters
    """It is psycopg's own error, which ``dependencies`` may list, and no mistake of the handler."""
    connection = psycopg.Connection(PGconn.connect(b"host=/nowhere"))
    connection._autocommit = autocommit
    with pytest.raises(psycopg.OperationalError), Once(connection, record(), commit=commit):
        pytest.fail("the block was entered")


_DJANGO = """
import sys
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}})
import django
django.setup()
from django.db import IntegrityError, connection, transaction
from tests.inboxes import LostError, record
from kafka_redelivery.consumers.inbox import Once

def charge(fail=False):
    with Once(connection, record()) as first:
        if first:
            connection.cursor().execute("INSERT INTO effects VALUES (7)")
        if fail:
            raise LostError

def refused(call):
    try:
        call()
    except RuntimeError as error:
        print(error)

def in_a_transaction():
    with Once(connection, record(8), commit=False) as first:
        print(bool(first))

try:
    charge(fail=True)
except LostError:
    print("failed")
charge()
charge()
refused(in_a_transaction)
with transaction.atomic():
    refused(charge)
    in_a_transaction()

def goes_on_after_a_failure(commit=True):
    with Once(connection, record(9), commit=commit) as first:
        if first:
            connection.cursor().execute("INSERT INTO effects VALUES (9)")
            try:
                with transaction.atomic(savepoint=False):
                    connection.cursor().execute("INSERT INTO effects VALUES (NULL)")
            except IntegrityError:
                pass

def in_atomic():
    with transaction.atomic():
        goes_on_after_a_failure(commit=False)

def set_rollback():
    with Once(connection, record(9)) as first:
        if first:
            transaction.set_rollback(True)

def rolled_back_by_sqlite():
    with Once(connection, record(9)) as first:
        if first:
            try:
                connection.cursor().execute("INSERT OR ROLLBACK INTO effects VALUES (NULL)")
            except IntegrityError:
                pass

def with_a_savepoint():
    with Once(connection, record(9)) as first:
        if first:
            try:
                with transaction.atomic():
                    connection.cursor().execute("INSERT INTO effects VALUES (NULL)")
            except IntegrityError:
                connection.cursor().execute("INSERT INTO effects VALUES (9)")

for each in goes_on_after_a_failure, in_atomic, set_rollback, rolled_back_by_sqlite:
    refused(each)
with_a_savepoint()
"""


def test_a_connection_of_django(file: str) -> None:
    """It is in autocommit mode outside of ``atomic()``, which the block is."""
    command = [sys.executable, "-c", _DJANGO, file]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    failed, alone, opened_before, first, *lost = ended.stdout.splitlines()
    assert (failed, first) == ("failed", "True")
    assert "autocommit" in alone
    assert "a transaction is open" in opened_before
    assert ["would be lost" in each for each in lost] == [True] * 4
    assert effects(file) == [7, 9]
