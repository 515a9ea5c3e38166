"""Where the command writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys

import typer
from rich.console import Console

_WIDTH_OF_A_FILE = 200
"""A table that goes into a file or a pipe is not broken into lines for a terminal that is not there."""


def stdout() -> Console:
    """For results."""
    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)


def stderr() -> Console:
    """For messages; a message is one line, however long."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(document: object) -> None:
    """One JSON document as the result."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
