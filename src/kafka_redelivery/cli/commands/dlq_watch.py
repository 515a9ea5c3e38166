"""`redelivery dlq watch`: follows dead letters live."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_redelivery.cli.commands.dlq_index import Waiting
from kafka_redelivery.cli.commands.dlq_running import load_quietly
from kafka_redelivery.cli.commands.dlq_selection import IndexFolder, OfGroup, selecting
from kafka_redelivery.cli.commands.dlq_summary import Columns, Limit
from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, duration
from kafka_redelivery.cli.output import stderr, stdout
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.summary_columns import DEFAULT_BY

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index
    from kafka_redelivery.dead_letters.index.summary import Summary


_LEAST_S: Final = 0.1
"""Between two looks."""


class _StoppedError(Exception):
    """A signal ends the command while it reads."""


@selecting
def watch(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    *,
    wanted: Selection,
    of_group: OfGroup = None,
    by: Columns = None,
    limit: Limit = 20,
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="How often to look, at least 100ms.")
    ] = "2s",
    index: IndexFolder = None,
    as_json: AsJson = False,
) -> None:
    """Follow dead letters live, as `summary` shows them, and how many were added since the start. Ctrl-C ends it.

    With --json, or without a terminal, it prints a line for each change.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq_watch import watching
    from kafka_redelivery.dead_letters.index.index import Index

    every_s = duration(every, "--every").total_seconds()
    if every_s < _LEAST_S:
        raise typer.BadParameter(f"{every} is too short; write 100ms or more", param_hint="--every")
    settings = load_quietly(config, overrides)
    columns = tuple(dict.fromkeys(by or DEFAULT_BY))
    opened = Index.open(settings, of_group or settings.group, path=index)

    def ask() -> Summary:
        return opened.summary(columns, opened.condition(wanted))

    try:
        with stop_event() as stop:
            with progress(stderr(), "reading new dead letters") as report_progress:
                _refresh(opened, stop, report_progress)
            with watching(stdout(), columns, limit, as_json=as_json) as show:
                _follow(opened, every_s, stop, ask, show)
    except _StoppedError:
        pass
    finally:
        opened.close()


def _follow(
    index: Index,
    every_s: float,
    stop: threading.Event,
    ask: Callable[[], Summary],
    show: Callable[[Summary, str], None],
) -> None:
    """Show what the index says until a signal ends it. While Kafka is away, what was known stays, with the reason."""
    from kafka_redelivery.transport.errors import TransportError

    problem, found = "", ask()
    while not stop.is_set():
        show(found, problem)
        if stop.wait(every_s):
            return
        try:
            _refresh(index, stop)
            found, problem = ask(), ""
        except TransportError as error:
            problem = str(error)


def _refresh(index: Index, stop: threading.Event, report_progress: Callable[[int, int], None] | None = None) -> None:
    tell = Waiting()

    def check(done: int, total: int) -> None:
        if stop.is_set():
            raise _StoppedError
        if report_progress is not None:
            report_progress(done, total)

    def wait() -> None:
        if stop.is_set():
            raise _StoppedError
        if report_progress is not None:
            tell()

    index.refresh(check, settled=False, waiting=wait)
