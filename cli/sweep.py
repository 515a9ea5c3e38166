"""`redelivery sweep`: removes expired dead letters now, once."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import Annotated

import typer

from cli import exit_codes
from cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from cli.output import print_json, stderr, stdout


def sweep(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be removed, and remove nothing.")] = False,
) -> None:
    """Remove the dead letters that have expired, as a scheduler does by itself, in one pass.

    For topics that no scheduler sweeps: because none runs, or because the expiration was taken out of the
    configuration. Exit code 1 if something was refused.
    """
    from cli.progress import progress
    from cli.sweep_view import print_swept, swept_document
    from consumers import sweep_pass

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    settings = load(config, overrides)
    with _until_signalled() as ended, progress(stderr(), "looking at dead letters") as looked:
        swept = (sweep_pass.look if dry_run else sweep_pass.sweep)(settings, ended, looked)
    whole = all(topic.whole for topic in swept)
    if as_json:
        print_json({"ok": whole, "dryRun": dry_run, **swept_document(swept)})
    else:
        print_swept(stdout(), swept, dry_run=dry_run)
    if not whole:
        raise typer.Exit(exit_codes.FAILED)


@contextmanager
def _until_signalled() -> Iterator[Event]:
    """An event that the first SIGTERM or SIGINT sets; the second ends the process."""
    ended = Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        ended.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
