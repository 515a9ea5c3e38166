"""docs/where.md lists the columns, and its examples are what they are said to be."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kafka_redelivery.dead_letters.where.columns import COLUMNS, ColumnKind
from kafka_redelivery.dead_letters.where.duckdb_sql import duckdb_sql
from kafka_redelivery.dead_letters.where.grammar import ExpressionError
from kafka_redelivery.dead_letters.where.where import parse

PAGE = (Path(__file__).parents[3] / "docs/where.md").read_text(encoding="utf-8")
NOW_MS = int(datetime(2026, 11, 23, 4, tzinfo=UTC).timestamp() * 1000)
EXAMPLES = re.findall(r"^\| `([^`]+)` \| (true|false|null) \|$", PAGE, re.MULTILINE)
_TYPES = {
    ColumnKind.TEXT: "VARCHAR",
    ColumnKind.INTEGER: "INTEGER",
    ColumnKind.TIMESTAMP: "TIMESTAMP",
    ColumnKind.MAP: "MAP(VARCHAR, VARCHAR)",
}


@pytest.fixture(scope="module")
def letter() -> duckdb.DuckDBPyConnection:
    """A table with the letter of the page."""
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found
    letter: dict[str, Any] = json.loads(found[1])
    letter["value"] = found[1].split('"value": ', 1)[1].rstrip()[:-1]
    made = duckdb.connect()
    columns = ", ".join(f'CAST(? AS {_TYPES[column.kind]}) AS "{column.name}"' for column in COLUMNS)
    made.execute(f"CREATE TABLE letters AS SELECT {columns}", [letter.get(column.name) for column in COLUMNS])
    return made


@pytest.mark.parametrize(("expression", "said"), EXAMPLES)
def test_each_example_is_what_the_page_says(expression: str, said: str, letter: duckdb.DuckDBPyConnection) -> None:
    """A pipe is escaped in tables of Markdown."""
    sql, parameters = duckdb_sql(parse(expression.replace(r"\|", "|")), NOW_MS)
    found = letter.execute(f"SELECT {sql} FROM letters", parameters).fetchall()  # noqa: S608 - what is tested
    assert found == [({"true": True, "false": False, "null": None}[said],)]


def test_there_are_examples() -> None:
    """The pattern finds them."""
    assert len(EXAMPLES) > 25


def test_the_error_is_the_one_of_the_page() -> None:
    """To the character."""
    found = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert found
    with pytest.raises(ExpressionError) as error:
        parse(found[1].splitlines()[1].strip())
    assert str(error.value) == found[1].rstrip()
