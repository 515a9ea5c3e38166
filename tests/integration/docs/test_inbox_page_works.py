"""The handler and the test of docs/inbox.md run as printed."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "inbox.md").read_text(encoding="utf-8")
SHOP = """
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

engine = create_engine("sqlite:///shop.db")

class Table(DeclarativeBase): pass

class Payment(Table):
    __tablename__ = "payments"
    id: Mapped[int] = mapped_column(primary_key=True)
    order: Mapped[int]
    cents: Mapped[int]
"""
FIXTURES = """
from pytest import fixture
from typer.testing import CliRunner
from kafka_redelivery import HandlerKit, JsonCodec
from kafka_redelivery.cli.main import app

@fixture
def database():
    statements = CliRunner().invoke(app, ["inbox", "sql", "--dialect", "sqlite"]).output
    Table.metadata.create_all(engine)
    with engine.begin() as connection:
        for statement in statements.split(";\\n"):
            connection.execute(text(statement))
    class Database:
        def payments(self):
            with Session(engine) as session:
                return [(each.order, each.cents) for each in session.scalars(select(Payment))]
    return Database()
"""


def test_a_payment_is_booked_once(pytester: pytest.Pytester) -> None:
    """The second delivery of the same value finds the row of the first."""
    handler, test = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    pytester.makepyfile(test_page=f"{SHOP}{handler}{FIXTURES}{test}")
    result = pytester.runpytest_subprocess("--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:randomly")
    result.assert_outcomes(passed=1)
