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
    """When it is NULL, too."""

    of_content: bool = False
    """Whether it is made of what the record contains: its key, value or user's headers."""


COLUMNS: Final = (
    Column("id", ColumnKind.TEXT, "`topic-partition@offset` of the dead letter"),
    Column("topic", ColumnKind.TEXT, "the dead-letter topic"),
    Column("partition", ColumnKind.INTEGER, "the partition of the dead letter"),
    Column("offset", ColumnKind.INTEGER, "the offset of the dead letter"),
    Column("died", ColumnKind.TIMESTAMP, "when the record became a dead letter"),
    Column("group", ColumnKind.TEXT, "the consumer group that failed; NULL if no header says it"),
    Column("origin", ColumnKind.TEXT, "the source topic; NULL if no header says it"),
    Column("source_id", ColumnKind.TEXT, "`topic-partition@offset` of the source record; NULL if no header says it"),
    Column("attempts", ColumnKind.INTEGER, "deliveries that count; NULL if no header says it"),
    Column("reason", ColumnKind.TEXT, "why it died, such as `redeliveries_exceeded`; NULL if no header says it"),
    Column("exception", ColumnKind.TEXT, "the class of the exception; NULL if no header says it"),
    Column("message", ColumnKind.TEXT, "the text of the exception; NULL if no header says it"),
    Column("place", ColumnKind.TEXT, "`module.function` of your code in which it failed; NULL if no header says it"),
    Column("fingerprint", ColumnKind.TEXT, "16 hex digits for this kind of failure; NULL if no header says a cause"),
    Column("expires", ColumnKind.TIMESTAMP, "when the dead letter expires; NULL if never"),
    Column(
        "key", ColumnKind.TEXT, "the key of the record; NULL if there is none, or if it is not UTF-8", of_content=True
    ),
    Column(
        "headers",
        ColumnKind.MAP,
        "the headers by name; of a name that is given twice, the last. NULL if there is none or it is not UTF-8",
        of_content=True,
    ),
    Column(
        "value",
        ColumnKind.TEXT,
        "the decoded value as JSON, or a value without a codec as text; NULL if it is not kept, cannot be decoded or "
        "is not UTF-8",
        of_content=True,
    ),
    Column("size", ColumnKind.INTEGER, "bytes of the value; NULL if the record has none"),
    Column("state", ColumnKind.TEXT, "the state of the dead letter, such as `waiting`"),
    Column("job", ColumnKind.TEXT, "the last job that has or had it; NULL if there is none"),
    Column("sends", ColumnKind.INTEGER, "how often jobs have sent it"),
)
"""In DuckDB a text is ``VARCHAR``, an integer any integer type up to ``BIGINT``, a timestamp ``TIMESTAMP`` (without a
zone, in UTC) and the headers ``MAP(VARCHAR, VARCHAR)``."""

OF_CONTENT: Final = frozenset(column.name for column in COLUMNS if column.of_content)
"""An index may not keep what they are made of, and the console may have to hide it."""

BY_NAME: Final = {column.name: column for column in COLUMNS}
