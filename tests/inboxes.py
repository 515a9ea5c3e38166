"""Every kind of connection that the inbox takes, used in the same way: an effect is a row in a table."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any, Final

import psycopg
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from kafka_redelivery.consumers.inbox import First, Identity, Once

EFFECTS: Final = "CREATE TABLE effects (number integer NOT NULL)"

SQLITE: Final = (
    "sqlite3",
    "sqlite3-autocommit",
    "connection",
    "session",
    "scoped-session",
    "async-connection",
    "async-session",
)
POSTGRESQL: Final = ("psycopg", "psycopg-autocommit", "async-psycopg", *SQLITE[2:])

Execute = Callable[[str], Awaitable[list[Any]]]


class LostError(Exception):
    """A handler fails in the block."""


def record(
    offset: int = 7, *, group: str = "billing", effect: str = "", at_ms: int = 5, value: bytes = b"v"
) -> Identity:
    """The identity of a record."""
    return Identity.of(group, effect, f"orders-3@{offset}", at_ms, b"k", value)


@asynccontextmanager
async def opened(kind: str, address: str) -> AsyncIterator[tuple[Any, Execute]]:
    """Open a connection or session of a kind; yield it, and what executes a statement on it.

    Args:
        kind: one of those above.
        address: a URL of PostgreSQL, or the path of a file.
    """
    match kind:
        case "sqlite3" | "sqlite3-autocommit":
            with closing(
                sqlite3.connect(
                    address, isolation_level=None if kind.endswith("autocommit") else "DEFERRED", timeout=30
                )
            ) as connection:
                yield connection, _executing(connection)
        case "psycopg" | "psycopg-autocommit":
            with psycopg.connect(address, autocommit=kind.endswith("autocommit")) as psy:
                yield psy, _executing(psy)
        case "async-psycopg":
            async with await psycopg.AsyncConnection.connect(address) as psy_async:
                yield psy_async, _executing(psy_async)
        case "connection" | "session" | "scoped-session":
            engine = create_engine(_url(address, "sqlite"), poolclass=NullPool)
            if kind == "connection":
                with engine.connect() as found:
                    yield found, _executing(found)
            elif kind == "session":
                with Session(engine) as session:
                    yield session, _executing(session)
            else:
                registry = scoped_session(sessionmaker(engine))
                try:
                    yield registry, _executing(registry)
                finally:
                    registry.remove()
        case "async-connection" | "async-session":
            async_engine = create_async_engine(_url(address, "sqlite+aiosqlite"), poolclass=NullPool)
            if kind == "async-connection":
                async with async_engine.connect() as found_async:
                    yield found_async, _executing(found_async)
            else:
                async with AsyncSession(async_engine) as session_async:
                    yield session_async, _executing(session_async)


@asynccontextmanager
async def block(kind: str, connection: Any, identity: Identity, *, commit: bool = True) -> AsyncIterator[First]:  # noqa: ANN401 - of any kind
    """Enter the block of a record."""
    if kind.startswith("async"):
        async with Once(connection, identity, commit=commit) as first:
            yield first
    else:
        with Once(connection, identity, commit=commit) as found:
            yield found


async def deliver(kind: str, address: str, identity: Identity, number: int = 7, *, fail: bool = False) -> bool:
    """Deliver a record to a handler that inserts a number once; return whether it was the first time."""
    async with opened(kind, address) as (connection, execute), block(kind, connection, identity) as first:
        if first:
            await execute(f"INSERT INTO effects VALUES ({number})")  # noqa: S608 - a number
        if fail:
            raise LostError
        return bool(first)


def _url(address: str, sqlite: str) -> str:
    scheme, separator, rest = address.partition("://")
    return f"{scheme}+psycopg://{rest}" if separator else f"{sqlite}:///{address}"


def _executing(connection: Any) -> Execute:  # noqa: ANN401 - of any kind
    alchemy = not isinstance(connection, sqlite3.Connection | psycopg.Connection | psycopg.AsyncConnection)

    async def execute(statement: str) -> list[Any]:
        result = connection.execute(text(statement) if alchemy else statement)
        if isinstance(result, Awaitable):
            result = await result
        returns = result.returns_rows if alchemy else result.description is not None
        if not returns:
            return []
        rows = result.fetchall()
        return list(await rows if isinstance(rows, Awaitable) else rows)

    return execute
