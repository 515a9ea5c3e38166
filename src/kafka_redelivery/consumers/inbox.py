"""The inbox: a table in the user's database that says which effects of which records have been done.

The row of a record is inserted in the transaction that does its effect, so the database has both or neither. The
primary key lets one of several deliveries win, also of a process that was taken for dead: the insert of the second
waits for the transaction of the first, finds the row if that commits, and is the first if it is rolled back.

A row says everything that tells a record from another one: message id, timestamp, and a digest of key and value. The
id of the topic is not among it. A redelivery does not carry it, and a worker that has not yet noticed that its topic
was created again gives the new topic's records the old id, then reads them again. Such records have another timestamp,
or, if their producers set it, other bytes.

Drivers and SQLAlchemy are recognised by the class of the connection and not imported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from datetime import timedelta
from hashlib import blake2b
from importlib import import_module
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

TABLE: Final = "redelivery_inbox"

_SCHEMAS: Final[Mapping[str, tuple[str, str]]] = {
    "postgresql": ("bigint", "timestamptz NOT NULL DEFAULT now()"),
    "sqlite": ("integer", "text NOT NULL DEFAULT CURRENT_TIMESTAMP"),
}
"""For each dialect the types of a number of 64 bits, and of a time with the present as its default."""


def schema(dialect: str) -> str:
    """Return the statements that create the table unless it exists. ``dialect``: ``postgresql`` or ``sqlite``."""
    number, time = _SCHEMAS[dialect]
    return f"""\
CREATE TABLE IF NOT EXISTS {TABLE} (
    consumer_group text NOT NULL,
    effect text NOT NULL,
    message_id text NOT NULL,
    timestamp_ms {number} NOT NULL,
    content text NOT NULL,
    done_at {time},
    PRIMARY KEY (message_id, consumer_group, effect, timestamp_ms, content)
);
CREATE INDEX IF NOT EXISTS {TABLE}_done_at ON {TABLE} (done_at);
"""


def pruning(dialect: str, age: timedelta) -> str:
    """Return the statement that deletes the rows that are older than ``age``, which is cut to whole seconds."""
    seconds = int(age.total_seconds())
    since = f"datetime('now', '-{seconds} seconds')" if dialect == "sqlite" else f"now() - interval '{seconds} seconds'"
    return f"DELETE FROM {TABLE} WHERE done_at < {since};\n"  # noqa: S608 - a number and names of ours


class Identity(NamedTuple):
    """The primary key of a row."""

    consumer_group: str
    effect: str
    message_id: str
    timestamp_ms: int
    content: str

    @classmethod
    def of(
        cls, group: str, effect: str, message_id: str, timestamp_ms: int, key: bytes | None, value: bytes | None
    ) -> Identity:
        """Return the identity of one effect of a record, from what is the same in all of its deliveries."""
        digest = blake2b(digest_size=12)
        for part in (key, value):
            digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        return cls(group, effect, message_id, timestamp_ms, digest.hexdigest())


class First:
    """Whether this is the first time, as a condition: ``if first:``."""

    __slots__ = ("_value", "asked")

    def __init__(self, *, value: bool) -> None:
        self._value = value
        self.asked = False
        """Whether the condition was used. A block that does not use it does its effect every time."""

    def __bool__(self) -> bool:
        self.asked = True
        return self._value

    def __repr__(self) -> str:
        return f"<first: {self._value}>"


class Once:
    """A block whose effect is done once for a record, see :meth:`Context.once`."""

    __slots__ = ("_block", "_connection")

    def __init__(self, connection: object, identity: Identity, *, commit: bool = True) -> None:
        """Prepare; the block begins when it is entered.

        Raises:
            TypeError: this is no connection or session of the kinds that :meth:`Context.once` names.
        """
        self._connection = connection
        self._block = _block(connection, identity, commit=commit)

    def __enter__(self) -> First:
        if not isinstance(self._block, AbstractContextManager):
            raise TypeError(f"{_name(self._connection)} is asynchronous; write `async with context.once(...)`")
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(self._block, AbstractContextManager):
            self._block.__exit__(kind, error, traceback)

    async def __aenter__(self) -> First:
        if isinstance(self._block, AbstractContextManager):
            raise TypeError(f"{_name(self._connection)} is synchronous; write `with context.once(...)`")
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(self._block, AbstractAsyncContextManager):
            await self._block.__aexit__(kind, error, traceback)

    def __bool__(self) -> bool:
        raise TypeError("once() is a block; write `with context.once(connection) as first:`, and `if first:` in it")


_Block = AbstractContextManager[First] | AbstractAsyncContextManager[First]


def _name(connection: object) -> str:
    return f"{type(connection).__module__.partition('.')[0]}.{type(connection).__qualname__}"


def _block(connection: object, identity: Identity, *, commit: bool) -> _Block:
    for base in type(connection).__mro__:
        match base.__module__.partition(".")[0], base.__qualname__:
            case "sqlite3", "Connection":
                return _once(_Sqlite(connection), identity, commit=commit)
            case "psycopg", "Connection":
                return _once(_Psycopg(connection), identity, commit=commit)
            case "psycopg", "AsyncConnection":
                return _once_in_psycopg(connection, identity, commit=commit)
            case "sqlalchemy", "Connection":
                return _once(_Connection(connection), identity, commit=commit)
            case "sqlalchemy", "Session":
                return _once(_Session(connection), identity, commit=commit)
            case "sqlalchemy", "AsyncConnection" | "AsyncSession":
                return _once_in_greenlet(connection, identity, commit=commit)
            case "django", "BaseDatabaseWrapper" | "ConnectionProxy":
                return _once(_Django(connection), identity, commit=commit)
            case "sqlalchemy", "scoped_session" | "async_scoped_session":
                return _block(connection(), identity, commit=commit)  # type: ignore[operator]
    raise TypeError(
        f"once() takes a connection of sqlite3, psycopg 3, SQLAlchemy or Django, or a session of SQLAlchemy, "
        f"not {_name(connection)}"
    )


class _Database(Protocol):
    """A connection as a block uses it."""

    def in_transaction(self) -> bool: ...

    def transaction(self) -> AbstractContextManager[object]: ...

    def commits_alone(self) -> bool:
        """Whether the next statement would be a transaction of its own."""
        ...

    def has_failed(self) -> bool:
        """Whether the open transaction can only be rolled back, although a commit would raise nothing."""
        ...

    def insert(self, identity: Identity) -> int:
        """Insert the row, unless it is there; return the number of inserted rows."""
        ...


@contextmanager
def _once(database: _Database, identity: Identity, *, commit: bool) -> Iterator[First]:
    with _begin(database, commit=commit):
        with _inserting(database):
            first = _first(database.insert(identity))
        yield first
        _check(first, database, commit=commit)


@asynccontextmanager
async def _once_in_psycopg(connection: Any, identity: Identity, *, commit: bool) -> AsyncIterator[First]:  # noqa: ANN401
    database = _Psycopg(connection)
    async with _begin(database, commit=commit):
        with _inserting(database):
            first = _first((await connection.execute(_PSYCOPG, identity)).rowcount)
        yield first
        _check(first, database, commit=commit)


@asynccontextmanager
async def _once_in_greenlet(connection: Any, identity: Identity, *, commit: bool) -> AsyncIterator[First]:  # noqa: ANN401
    """Use the synchronous block: SQLAlchemy's asynchronous classes run synchronous code in a greenlet."""
    block: list[AbstractContextManager[First]] = []

    def enter(synchronous: object) -> First:
        block.append(_block(synchronous, identity, commit=commit))  # type: ignore[arg-type]
        return block[0].__enter__()

    first = await connection.run_sync(enter)
    try:
        yield first
    except BaseException as error:
        raised = error
        await connection.run_sync(lambda _: block[0].__exit__(type(raised), raised, raised.__traceback__))
        raise
    await connection.run_sync(lambda _: block[0].__exit__(None, None, None))


_OPEN: Final = (
    "a transaction is open on the connection of once(), which begins and commits one: end yours before (sqlite3 always "
    "has one with autocommit=False), or write once(..., commit=False) and commit it yourself"
)
_ALONE: Final = (
    "the connection of once() is in autocommit mode, so its row would be committed without the effect: begin a "
    "transaction before it, or use another mode"
)
_ENDED: Final = "the block of once() has ended its transaction; leave that to once(), or write once(..., commit=False)"
_FAILED: Final = (
    "the database rolls back the transaction of once(), because a statement has failed or it was told to, so the "
    "effect would be lost: let the exception leave the block, or wrap a statement that may fail in a savepoint "
    "(transaction() of psycopg, begin_nested() of SQLAlchemy, a second atomic() of Django)"
)


def _begin(database: _Database, *, commit: bool) -> Any:  # noqa: ANN401 - a context manager, sync or async as the connection
    if not commit:
        return nullcontext()
    if database.in_transaction():
        raise RuntimeError(_OPEN)
    return database.transaction()


@contextmanager
def _inserting(database: _Database) -> Iterator[None]:
    if database.commits_alone():
        raise RuntimeError(_ALONE)
    try:
        yield
    except Exception as error:
        if TABLE in str(error):
            error.add_note(f"`redelivery inbox sql` prints the statements that create {TABLE}")
        raise


def _check(first: First, database: _Database, *, commit: bool) -> None:
    """Raise if a block that is at its end cannot have kept the promise."""
    if not first.asked:
        raise RuntimeError("the block of once() never asks whether this is the first time; write `if first:` in it")
    if not database.in_transaction():
        if commit:
            raise RuntimeError(_ENDED)
    elif database.has_failed():
        raise RuntimeError(_FAILED)


def _has_failed(driver: Any) -> bool:  # noqa: ANN401 - the connection of any driver
    """Whether the database answers a commit with a rollback, or has rolled back. Drivers do not report that."""
    if hasattr(driver, "info"):  # of psycopg 2 and 3
        return bool(driver.info.transaction_status == _IN_ERROR)
    return not getattr(driver, "in_transaction", True)  # of sqlite3 and aiosqlite


def _check_dialect(name: str) -> None:
    if name not in _SCHEMAS:
        raise TypeError(f"the inbox may be in a database of {' or '.join(_SCHEMAS)}, not of {name}")


def _first(rows: int) -> First:
    if rows not in {0, 1}:
        raise RuntimeError(f"the driver does not say how many rows were inserted ({rows})")
    return First(value=rows == 1)


def _statement(parameter: Callable[[str], str]) -> str:
    names = Identity._fields
    values = ", ".join(map(parameter, names))
    return f"INSERT INTO {TABLE} ({', '.join(names)}) VALUES ({values}) ON CONFLICT DO NOTHING"  # noqa: S608 - no input


_SQLITE: Final = _statement(lambda _: "?")
_PSYCOPG: Final = _statement(lambda _: "%s")
_NAMED: Final = _statement(":{}".format)

_IN_ERROR: Final = 3
"""``INERROR`` of libpq: a statement of the transaction has failed."""

_UNKNOWN: Final = 4
"""``UNKNOWN`` of libpq: the connection is lost or closed."""


class _Sqlite:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - of the user
        self._connection: sqlite3.Connection = connection

    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        # The insert follows, so the lock is needed anyway. One that is begun by reading cannot always get it.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")  # commit() does nothing with autocommit=True
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def commits_alone(self) -> bool:
        return not self._connection.in_transaction and (
            getattr(self._connection, "autocommit", None) is True or self._connection.isolation_level is None
        )

    def has_failed(self) -> bool:
        return False  # SQLite ends a transaction that it rolls back

    def insert(self, identity: Identity) -> int:
        return self._connection.execute(_SQLITE, identity).rowcount


class _Psycopg:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - of the user
        self._connection = connection

    def in_transaction(self) -> bool:
        status: int = self._connection.info.transaction_status
        if status == _UNKNOWN:  # at its end, transaction() would raise nothing
            raise self._connection.OperationalError("the connection is lost")
        return status != 0  # IDLE

    def transaction(self) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = self._connection.transaction()
        return found

    def commits_alone(self) -> bool:
        return self._connection.autocommit and not self.in_transaction()

    def has_failed(self) -> bool:
        return _has_failed(self._connection)

    def insert(self, identity: Identity) -> int:
        rows: int = self._connection.execute(_PSYCOPG, identity).rowcount
        return rows


class _Connection:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - of the user
        self._connection = connection
        self._text = import_module("sqlalchemy").text

    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction())

    def transaction(self) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = self._connection.begin()
        return found

    def commits_alone(self) -> bool:
        pooled = self._connection.connection
        if self._connection.dialect.name == "sqlite":
            return _Sqlite(pooled.driver_connection).commits_alone()
        return bool(pooled.dbapi_connection.autocommit)

    def has_failed(self) -> bool:
        driver = self._connection.connection.driver_connection
        if self._connection.dialect.name == "postgresql" and not hasattr(driver, "info"):
            self._connection.execute(self._text("SELECT 1"))  # raises after a failed statement; such as asyncpg
        return _has_failed(driver)

    def insert(self, identity: Identity) -> int:
        _check_dialect(self._connection.dialect.name)
        rows: int = self._connection.execute(self._text(_NAMED), identity._asdict()).rowcount
        return rows


class _Session:
    """A session takes its connection from the pool when its transaction has begun."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - of the user
        self._session = session

    def in_transaction(self) -> bool:
        return bool(self._session.in_transaction())

    def transaction(self) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = self._session.begin()
        return found

    def commits_alone(self) -> bool:
        return _Connection(self._session.connection()).commits_alone()

    def has_failed(self) -> bool:
        return _Connection(self._session.connection()).has_failed()

    def insert(self, identity: Identity) -> int:
        return _Connection(self._session.connection()).insert(identity)


class _Django:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - of the user
        self._connection = connection

    def in_transaction(self) -> bool:
        return not self._connection.get_autocommit()

    def transaction(self) -> AbstractContextManager[object]:
        atomic = import_module("django.db.transaction").atomic
        found: AbstractContextManager[object] = atomic(using=self._connection.alias)
        return found

    def commits_alone(self) -> bool:
        return not self.in_transaction()

    def has_failed(self) -> bool:
        return bool(self._connection.needs_rollback) or _has_failed(self._connection.connection)

    def insert(self, identity: Identity) -> int:
        _check_dialect(self._connection.vendor)
        with self._connection.cursor() as cursor:
            cursor.execute(_PSYCOPG, identity)
            rows: int = cursor.rowcount
        return rows
