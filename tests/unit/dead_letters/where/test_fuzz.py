"""No text makes the parser fail, and nothing that it accepts can do anything but read."""

import re

import pytest

from kafka_redelivery.dead_letters.where.columns import COLUMNS
from kafka_redelivery.dead_letters.where.duckdb_sql import duckdb_sql
from kafka_redelivery.dead_letters.where.expression import nodes
from kafka_redelivery.dead_letters.where.grammar import ExpressionError
from kafka_redelivery.dead_letters.where.where import parse
from tests.unit.dead_letters.where.texts import ATTACKS, LARGE, VALID, texts

_WORDS = {
    *("AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "ESCAPE", "CAST", "TRY_CAST", "AS"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "lambda", "text", "divisor", "coalesce", "starts_with", "contains"),
    *("VARCHAR", "BIGINT", "HUGEINT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "JSON", "epoch_ms", "json_extract_string"),
    *("regexp_extract", "list_transform", "strlen", "length", "lower", "upper", "translate"),
}
_NAMES = frozenset(f'"{column.name}"' for column in COLUMNS)
_PART = re.compile(r"""'[^']*'|"[^"]*"|\w+|.""", re.DOTALL)
_PATTERNS = frozenset(
    part for text in VALID for part in _PART.findall(duckdb_sql(parse(text), 0).sql) if part.startswith("'")
) | {"'\\'"}
_SIGNS = frozenset("()[],?=<>+-*/| ") | {"0", "1", ":"}


def _outcome(text: str) -> bool:
    """Return whether a text is accepted, after checking what becomes of it."""
    try:
        expression = parse(text)
    except ExpressionError as error:
        if not str(error).startswith("--where, "):
            raise
        return False
    sql, parameters = duckdb_sql(expression, 0)
    unknown = set(_PART.findall(sql)) - _WORDS - _NAMES - _SIGNS - _PATTERNS
    assert not unknown, f"{text!r} becomes {sql}"
    assert _PART.findall(sql).count("?") == len(parameters)
    assert sum(1 for _ in nodes(expression)) <= 4096
    return True


@pytest.mark.parametrize("text", [*VALID, *LARGE])
def test_valid_expressions_are_accepted(text: str) -> None:
    """Otherwise their mutations would test little."""
    assert _outcome(text)


@pytest.mark.parametrize("text", ATTACKS)
def test_attacks_are_refused(text: str) -> None:
    """What is no part of the language is refused before a database sees it."""
    assert not _outcome(text)


@pytest.mark.parametrize("number", [1_500, pytest.param(100_000, marks=pytest.mark.long)])
def test_no_text_makes_it_fail(number: int, random_seed: int) -> None:
    """Random bytes, words and mutations."""
    assert sum(_outcome(text) for text in texts(random_seed, number)) > number // 20


@pytest.fixture
def random_seed(request: pytest.FixtureRequest) -> int:
    """Another one in each run; pytest-randomly prints it."""
    return int(request.config.getoption("randomly_seed", 0) or 0)
