"""`redelivery dlq summary`: which kinds of dead letters there are, once or again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_redelivery.cli.commands.dlq_options import Selecting
from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import AsJson, duration
from kafka_redelivery.cli.output import stdout
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.letter import DEFAULT_BY, By
from kafka_redelivery.topology.durations import parse_time
from kafka_redelivery.topology.errors import OptionError

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index
    from kafka_redelivery.dead_letters.index.summary import Summary

_LEAST_S: Final = 0.1
"""Between two looks."""


class _StoppedError(Exception):
    """A signal ends the command while it reads."""


@dataclass(frozen=True, kw_only=True)
class Summarise(Selecting):
    """Summarise dead letters by kind of failure: how many, since when, the trend, and how many recovered when sent.

    With --every it follows them live and shows how many were added to each kind since it began. With --json, or without
    a terminal, it then prints a line for each change.
    """

    by: Annotated[
        list[By] | None,
        typer.Option("--by", help="Group by this; repeatable. Default: origin, reason and fingerprint."),
    ] = None
    limit: Annotated[int, typer.Option("--limit", min=1, help="Print this many kinds at most.")] = 50
    texts: Annotated[
        int, typer.Option("--texts", min=0, max=1000, help="Count this many distinct texts of each kind.")
    ] = 3
    new_since: Annotated[
        str | None,
        typer.Option("--new-since", metavar="TIME", help="Only kinds of which no letter that is kept died before."),
    ] = None
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION", help="Look again after this time (at least 100ms), until Ctrl-C."),
    ] = None
    as_json: AsJson = False

    def __call__(self) -> None:
        """Print the kinds, once or again and again."""
        from kafka_redelivery.cli.views.dlq import following, print_summary

        every_s = None if self.every is None else duration(self.every, "--every").total_seconds()
        if every_s is not None and every_s < _LEAST_S:
            raise OptionError("every", f"{self.every} is too short; write 100ms or more")
        new_since_ms = None if self.new_since is None else _time(self.new_since)
        wanted, settings = self.selection(), self.settings()
        columns = tuple(dict.fromkeys(self.by or DEFAULT_BY))
        # What the index does not keep would be read from all letters at each look.
        read = wanted if every_s is None else None
        with self.refreshed_index(settings, read, skip_leaderless=True) as index:

            def ask() -> Summary:
                texts = self.texts if By.FINGERPRINT in columns else 0
                found = index.summary(columns, index.condition(wanted), texts)
                return found if new_since_ms is None else found.new_since(new_since_ms)

            if every_s is None:
                print_summary(stdout(), ask(), columns, self.limit, index.unread, as_json=self.as_json)
                return
            with following(stdout(), columns, self.limit, as_json=self.as_json) as show:
                _follow(index, every_s, ask, show)


def _time(text: str) -> int:
    try:
        return parse_time(text, wall_clock_ms(), ago=True)
    except ValueError as error:
        raise OptionError("new-since", str(error)) from None


def _follow(index: Index, every_s: float, ask: Callable[[], Summary], show: Callable[[Summary, str], None]) -> None:
    """Show what the index says until a signal ends it. While Kafka is away, what was known stays, with the reason."""
    from kafka_redelivery.transport.errors import TransportError

    with stop_event() as stop:

        def check(*_done_and_total: int) -> None:
            if stop.is_set():
                raise _StoppedError

        found, problem = ask(), index.lacking
        while True:
            show(found, problem)
            if stop.wait(every_s):
                return
            try:
                index.refresh(check, settled=False, waiting=check, skip_leaderless=True)
                found, problem = ask(), index.lacking
            except TransportError as error:
                problem = str(error)
            except _StoppedError:
                return
