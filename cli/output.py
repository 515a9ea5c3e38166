"""Output of the commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_redelivery.topology.printable import printable, printable_json

_WIDTH_WITHOUT_TERMINAL = 100_000
"""So wide that lines in a file or a pipe are not wrapped."""


def stdout() -> Console:
    """Return the console for results."""
    return _console(soft_wrap=False, width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL)


def stderr() -> Console:
    """Return the console for messages, which never wraps a line."""
    return _console(stderr=True, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    """Print a table; without a terminal also without trailing blanks."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), soft_wrap=True)


class _PlainConsole(Console):
    """A console on which a control character in a name or message does nothing."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as its base
        """Return a string as text."""
        return super().render_str(printable(text), **options)


def _console(*, stderr: bool = False, soft_wrap: bool, width: int | None = None) -> Console:
    """Without markup and emoji, because names and messages may contain texts like ``:bank:`` and ``[red]``."""
    return _PlainConsole(stderr=stderr, soft_wrap=soft_wrap, width=width, highlight=False, markup=False, emoji=False)


def print_json(document: object, *, indent: int | None = 2) -> None:
    """Print a JSON document; ``indent=None``: as one line."""
    typer.echo(printable_json(json.dumps(document, indent=indent, ensure_ascii=False)))


def print_bytes(data: bytes) -> None:
    """Print bytes of a record, unchanged; on a terminal as text in which a control character does nothing."""
    if sys.stdout.isatty():
        typer.echo(printable(data.decode(errors="backslashreplace")), nl=not data.endswith(b"\n"))
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
