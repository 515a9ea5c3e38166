"""`redelivery inbox`: the SQL of the table that `context.once()` uses. It connects to no database."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.options import duration
from kafka_redelivery.cli.output import print_text
from kafka_redelivery.consumers.inbox import pruning, schema

app = Commands(no_args_is_help=True, help="Print the SQL of the inbox, the table of context.once().")


class Dialect(StrEnum):
    """The databases that may hold the table."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


@app.callback()
def group() -> None:
    """Keep `sql` a command of its own; a group of one command would be that command."""


@app.command()
def sql(
    dialect: Annotated[Dialect, typer.Option("--dialect", help="The database that the SQL is for.")],
    prune: Annotated[
        str | None,
        typer.Option("--prune", metavar="DURATION", help="Print what deletes rows that are older, such as 60d."),
    ] = None,
) -> None:
    """Print the statements that create the table, or with --prune the one that deletes old rows.

    Run the first once, such as `redelivery inbox sql --dialect postgresql | psql`, as a user who may create tables.
    Rows may be deleted that are older than a record can become: see docs/inbox.md.
    """
    print_text(schema(dialect) if prune is None else pruning(dialect, duration(prune, "--prune")), newline=False)
