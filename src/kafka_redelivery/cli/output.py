"""Output of the commands: results on standard output, everything else on standard error.

All output is written here, because a command ends without a message when nothing reads it any more.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import IO, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.printable import printable, printable_json

_WIDTH_WITHOUT_TERMINAL = 100_000
"""So wide that lines in a file or a pipe are not wrapped."""


def stdout() -> Console:
    """Return the console for results."""
    return _console(soft_wrap=False, width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL)


def stderr() -> Console:
    """Return the console for messages, which never wraps a line."""
    return _console(stderr=True, soft_wrap=True)


def plain_table(*columns: str, right: Container[str] = ()) -> Table:
    """Return a table without lines and with these headings, whose long cells are folded; ``right``: aligned right."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in right else "left")
    return table


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
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> NoReturn:
        self.quiet = True
        _end_without_reader(self.file)


def _console(*, stderr: bool = False, soft_wrap: bool, width: int | None = None) -> Console:
    """Without markup and emoji, because names and messages may contain texts like ``:bank:`` and ``[red]``."""
    return _PlainConsole(stderr=stderr, soft_wrap=soft_wrap, width=width, highlight=False, markup=False, emoji=False)


def print_text(text: str = "", *, newline: bool = True, err: bool = False) -> None:
    """Print text as it is, on standard error with ``err``."""
    with _ending_without_reader(sys.stderr if err else sys.stdout):
        typer.echo(text, nl=newline, err=err)


def confirm(question: str, *, default: bool = False) -> bool:
    """Ask on the terminal, and return the answer."""
    with _ending_without_reader(sys.stdout):
        return typer.confirm(question, default=default)


def print_json(document: object, *, indent: int | None = 2) -> None:
    """Print a JSON document; ``indent=None``: as one line."""
    print_text(printable_json(json.dumps(document, indent=indent, ensure_ascii=False)))


def print_bytes(data: bytes) -> None:
    """Print bytes of a record, unchanged; on a terminal as text in which a control character does nothing."""
    if sys.stdout.isatty():
        print_text(printable(data.decode(errors="backslashreplace")), newline=not data.endswith(b"\n"))
        return
    with _ending_without_reader(sys.stdout):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def _ending_without_reader(stream: IO[str]) -> Iterator[None]:
    """End the command if the block cannot write to the stream because nothing reads it any more."""
    try:
        yield
    except BrokenPipeError:
        _end_without_reader(stream)


def _end_without_reader(stream: IO[str]) -> NoReturn:
    """End the command as `head` expects it: without a message.

    What the stream still buffers, and what is written while the command ends, goes to the null device. The interpreter
    would otherwise report it when it flushes the stream.

    Source: "Note on SIGPIPE" in the documentation of Python's module ``signal``.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    raise SystemExit(exit_codes.FAILED) from None
