"""`redelivery inbox sql` prints what a database takes, and needs no configuration."""

import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.consumers.inbox import schema


def test_the_table_and_its_pruning() -> None:
    """Both run in the database that they are for."""
    created = CliRunner().invoke(app, ["inbox", "sql", "--dialect", "sqlite"])
    pruned = CliRunner().invoke(app, ["inbox", "sql", "--dialect", "sqlite", "--prune", "60d"])
    assert (created.exit_code, pruned.exit_code) == (0, 0)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(created.output + pruned.output)
        assert connection.execute("SELECT count(*) FROM redelivery_inbox").fetchone() == (0,)


def test_the_other_dialect() -> None:
    """Its times are those of the server."""
    arguments = ["inbox", "sql", "--dialect", "postgresql"]
    assert CliRunner().invoke(app, arguments).output == schema("postgresql")
    pruned = CliRunner().invoke(app, [*arguments, "--prune", "60d"]).output
    assert pruned == "DELETE FROM redelivery_inbox WHERE done_at < now() - interval '5184000 seconds';\n"


@pytest.mark.parametrize("arguments", [[], ["--dialect", "mysql"], ["--dialect", "sqlite", "--prune", "60"]])
def test_wrong_usage(arguments: list[str]) -> None:
    """Exit code 2: a duration has a unit, and the dialect has no default."""
    assert CliRunner().invoke(app, ["inbox", "sql", *arguments]).exit_code == 2
