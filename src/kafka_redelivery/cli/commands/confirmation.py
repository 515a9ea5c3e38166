"""Asks on the terminal before a command changes something, and refuses without ``--yes`` where there is no terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kafka_redelivery.cli.output import confirm
from kafka_redelivery.topology import exit_codes

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def can_ask(*, as_json: bool) -> bool:
    """Whether there is a terminal to ask on, and the output is for a person."""
    return not as_json and sys.stdin.isatty()


def refuse_without_question(*, yes: bool, as_json: bool, dry_run: bool | None = None) -> None:
    """Refuse to change something where it cannot be asked whether to do it.

    Args:
        yes: the user has agreed.
        as_json: the output is JSON.
        dry_run: nothing will be changed; ``None`` if the command has no ``--dry-run``.

    Raises:
        typer.BadParameter: without ``--yes`` where the command cannot ask.
    """
    if yes or dry_run or can_ask(as_json=as_json):
        return
    instead = "" if dry_run is None else ", or --dry-run to change nothing"
    raise typer.BadParameter(
        f"there is no terminal to ask on; add --yes to go on without a question{instead}", param_hint="--yes"
    )


def ask(question: str) -> None:
    """Ask whether to go on; anything but yes ends the command with exit code 1."""
    if not confirm(question):
        raise typer.Exit(exit_codes.FAILED)
