"""Where the command writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys

import typer
from rich.console import Console
from rich.table import Table

_WIDTH_OF_A_FILE = 100_000
"""What goes into a file or a pipe is not broken into lines for a terminal that is not there."""


def stdout() -> Console:
    """For results."""
    return _console(soft_wrap=False, width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)


def stderr() -> Console:
    """For messages; a message is one line, however long."""
    return _console(stderr=True, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    """A table; without the blanks that fill its last column where no terminal shows it."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), soft_wrap=True)


def _console(*, stderr: bool = False, soft_wrap: bool, width: int | None = None) -> Console:
    """Names and messages are other people's text: ``:bank:`` and ``[red]`` in them stay what they are."""
    return Console(stderr=stderr, soft_wrap=soft_wrap, width=width, highlight=False, markup=False, emoji=False)


def print_json(document: object) -> None:
    """One JSON document as the result."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
