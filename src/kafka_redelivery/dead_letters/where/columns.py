"""The columns that an expression of `--where` may name. docs/where.md explains each."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class ColumnKind(StrEnum):
    """The type of a column or of an expression."""

    TEXT = "text"
    INTEGER = "integer"
    """64 bits, signed."""

    DOUBLE = "double"
    """64 bits, IEEE 754."""

    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    """In UTC, with milliseconds."""

    INTERVAL = "interval"
    """A length of time in milliseconds. No column has it."""

    MAP = "map"
    """From text to text."""


class Column(NamedTuple):
    """A column of a dead letter."""

    name: str
    kind: ColumnKind
    meaning: str
    """What it is. It is NULL where a letter has no such thing."""

    of_content: bool = False
    """Whether it is made of what the record contains: its key, value or user's headers."""


COLUMNS: Final = (
    Column("id", ColumnKind.TEXT, "`topic-partition@offset` of the dead letter"),
    Column("topic", ColumnKind.TEXT, "the dead-letter topic"),
    Column("partition", ColumnKind.INTEGER, "its partition"),
    Column("offset", ColumnKind.INTEGER, "its offset"),
    Column("died", ColumnKind.TIMESTAMP, "when it became a dead letter"),
    Column("group", ColumnKind.TEXT, "the consumer group that failed"),
    Column("origin", ColumnKind.TEXT, "the source topic"),
    Column("source_id", ColumnKind.TEXT, "`topic-partition@offset` of the source record"),
    Column("attempts", ColumnKind.INTEGER, "deliveries that count"),
    Column("reason", ColumnKind.TEXT, "why it died, such as `redeliveries_exceeded`"),
    Column("exception", ColumnKind.TEXT, "class of the exception"),
    Column("message", ColumnKind.TEXT, "text of the exception"),
    Column("place", ColumnKind.TEXT, "`module.function` of your code"),
    Column("fingerprint", ColumnKind.TEXT, "16 hex digits for this kind of failure"),
    Column("expires", ColumnKind.TIMESTAMP, "when the dead letter expires"),
    Column("key", ColumnKind.TEXT, "the key as text", of_content=True),
    Column("headers", ColumnKind.MAP, "the headers; of one name the last", of_content=True),
    Column("value", ColumnKind.TEXT, "the decoded value as JSON, or text", of_content=True),
    Column("size", ColumnKind.INTEGER, "bytes of the value"),
    Column("state", ColumnKind.TEXT, "its state, such as `waiting`"),
    Column("job", ColumnKind.TEXT, "the last job that has or had it"),
    Column("sends", ColumnKind.INTEGER, "how often jobs have sent it"),
)
"""In DuckDB a text is ``VARCHAR``, an integer any integer type up to ``BIGINT``, a timestamp ``TIMESTAMP`` (without a
zone, in UTC) and the headers ``MAP(VARCHAR, VARCHAR)``."""

OF_CONTENT: Final = frozenset(column.name for column in COLUMNS if column.of_content)
"""An index may not keep what they are made of, and the console may have to hide it."""

BY_NAME: Final = {column.name: column for column in COLUMNS}
