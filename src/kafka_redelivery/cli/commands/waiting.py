"""`redelivery waiting`: lists records that wait in tiers, and acts on them.

Without ``from __future__ import annotations``: commands inherit the fields of a class, and typer needs their types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    Note,
    Overrides,
    Yes,
    ask,
    duration,
    load,
    named_values,
    refuse_without_question,
)
from kafka_redelivery.cli.output import print_json, print_text, stderr
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.printable import printable_line, printable_time
from kafka_redelivery.topology.wire.waiting import WaitingAction

if TYPE_CHECKING:
    from kafka_redelivery.consumers.operations.acting import Found, RequestState, Waiting, WaitingSelection

app = Commands(
    no_args_is_help=True,
    help="List records that wait for a redelivery; deliver them now, give them another due time, or dead-letter them.",
)


@dataclass(kw_only=True)
class _Selecting:
    """The options that select waiting records. Of each, one value has to fit."""

    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    tier: Annotated[
        list[str] | None,
        typer.Option("--tier", metavar="TIER", help="A retry topic, or its delay such as 2s, or mixed; repeatable."),
    ] = None
    source: Annotated[
        list[str] | None, typer.Option("--source", metavar="TOPIC", help="Records of this source; repeatable.")
    ] = None
    key: Annotated[list[str] | None, typer.Option("--key", help="Records with this key; repeatable.")] = None
    id: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="TOPIC-PARTITION@OFFSET of a source record; repeatable."),
    ] = None
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Records with this header; repeatable.")
    ] = None
    exception: Annotated[
        list[str] | None,
        typer.Option("--exception", metavar="CLASS", help="Records that failed last with this class; repeatable."),
    ] = None
    limit: Annotated[int, typer.Option("--limit", min=1, help="Read at most this many waiting records.")] = 200_000
    as_json: AsJson = False

    def _selection(self, settings: Settings) -> "WaitingSelection":
        from kafka_redelivery.consumers.operations.acting import WaitingSelection
        from kafka_redelivery.consumers.operations.pausing import targets_of
        from kafka_redelivery.transport.admin.topics import TopicMetadataCache

        targets = targets_of(settings, (), self.tier or (), TopicMetadataCache(settings.kafka)) if self.tier else []
        return WaitingSelection(
            tiers=tuple(each.topic for each in targets),
            sources=tuple(self.source or ()),
            keys=tuple(self.key or ()),
            ids=tuple(self.id or ()),
            headers=tuple(named_values(self.header, "--header").items()),
            exceptions=tuple(self.exception or ()),
        )

    def _look(self, settings: Settings, selection: "WaitingSelection", *, records: bool = True) -> "Found":
        from kafka_redelivery.cli.progress import progress
        from kafka_redelivery.consumers.operations.acting import look

        with progress(stderr(), "reading waiting records") as report:
            found = look(settings, selection, self.limit, report, records=records)
        if found.unread and not self.as_json:
            stderr().print(found.unread, style="yellow")
        return found


@app.command("list")
@dataclass(kw_only=True)
class List(_Selecting):
    """List records that wait in tiers, by due time, and the actions on them that have not ended.

    Records that are ready, in a handler or wait in their source are not in a tier; `redelivery find` says where one is.
    """

    def __call__(self) -> None:
        """Run the command."""
        from kafka_redelivery.consumers.operations.acting import look_at_requests

        settings = load(self.config, self.overrides)
        found = self._look(settings, self._selection(settings))
        requests = [each for each in look_at_requests(settings) if not each.done.ended]
        if self.as_json:
            print_json(
                {
                    "ok": True,
                    "records": [_document(each) for each in found.records],
                    "unread": found.unread,
                    "requests": [each.document() for each in requests],
                }
            )
            return
        for each in found.records:
            print_text(printable_line(_line(each, settings)))
        if not found.records:
            print_text("nothing waits")
        for state in requests:
            print_text(printable_line(str(state)))


@dataclass(kw_only=True)
class _Acting(_Selecting):
    """What the commands have that act on waiting records."""

    note: Note = ""
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False
    yes: Yes = False
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for the schedulers.")
    ] = "30s"

    def _act(self, action: WaitingAction, done: str, due: str | None = None) -> None:
        """Select, ask, write the audit trail, and let the owners of the tiers do it."""
        from kafka_redelivery.cli.progress import progress
        from kafka_redelivery.consumers.clock import wall_clock_ms
        from kafka_redelivery.consumers.operations import acting
        from kafka_redelivery.dead_letters.audit import write_note
        from kafka_redelivery.dead_letters.ledger import author

        wait_s = duration(self.timeout, "--timeout").total_seconds()
        refuse_without_question(yes=self.yes, as_json=self.as_json, dry_run=self.dry_run)
        settings = load(self.config, self.overrides)
        now_ms = wall_clock_ms()
        due_ms = None if due is None else acting.due_time(due, now_ms)
        selection = self._selection(settings)
        if selection.whole and not selection.tiers:
            raise OptionError("tier", "name the tiers, or select records with --id, --key or another option")
        acting.refuse_older(settings)
        found = self._look(settings, selection, records=not selection.whole)
        missing = list(self._missing(settings, selection, found))
        requests = acting.requests_for(found, action, due_ms, author(), self.note, now_ms)
        if due_ms is not None:
            done = f"{done} {printable_time(due_ms)}"
        if not self.as_json:
            for line in missing:
                stderr().print(printable_line(line), style="yellow")
        if not requests or self.dry_run:
            self._print(f"{found} would be {done}" if requests else "", [], missing, found, ok=bool(requests))
            return
        if not self.yes:
            ask(f"{found} will be {done}; go on?")
        write_note(settings, author(), f"{action} waiting", str(found), note=self.note)
        with progress(stderr(), "the schedulers act") as report:
            states = acting.act(settings, requests, wait_s, report)
        ok = all(each.whole for each in states)
        number = sum(each.done.done for each in states)
        self._print(f"{number:,} {'record is' if number == 1 else 'records are'} {done}", states, missing, found, ok=ok)

    def _print(self, text: str, states: "list[RequestState]", missing: list[str], found: "Found", *, ok: bool) -> None:
        ok = ok and not missing and not found.unread
        if self.as_json:
            requests = [each.document() for each in states]
            print_json({"ok": ok, "message": text, "requests": requests, "notWaiting": missing, "unread": found.unread})
        else:
            print_text(text or "nothing that waits in a tier is selected")
            for each in states:
                if not each.whole or each.gone:
                    print_text(printable_line(str(each)))
        if not ok:
            raise typer.Exit(exit_codes.FAILED)

    def _missing(self, settings: Settings, selection: "WaitingSelection", found: "Found") -> Iterator[str]:
        """Yield where the records are that are named and do not wait in a tier."""
        from kafka_redelivery.cli.commands.find import lines, with_standings
        from kafka_redelivery.consumers.operations.find import Wanted, find

        ids = {each.lineage.message_id for each in found.records}
        keys = {each.key for each in found.records}
        named = [each for each in selection.ids if each not in ids]
        named += [each for each in selection.keys if each.encode() not in keys]
        for each in named:
            search = find(settings, Wanted.of(settings, each), self.limit, lambda *_: None)
            search, standings = with_standings(settings, search)
            yield from lines(search, each, standings)


@app.command("deliver-now")
@dataclass(kw_only=True)
class DeliverNow(_Acting):
    """Deliver waiting records now: they go to their ready topic, although they are not due.

    The scheduler that owns the tier does it, so no record is delivered twice. Exit code 1 if some are refused, do not
    wait in a tier, may be among those that --limit left unread, or are not done within --timeout: these are done when
    there is a scheduler and space, within a day.
    """

    def __call__(self) -> None:
        """Run the command."""
        self._act(WaitingAction.DELIVER_NOW, "delivered now")


@app.command("dead-letter")
@dataclass(kw_only=True)
class DeadLetter(_Acting):
    """Dead-letter waiting records with reason `operator` and the note. The number of their deliveries stays.

    Exit code 1 as of deliver-now.
    """

    def __call__(self) -> None:
        """Run the command."""
        self._act(WaitingAction.DEAD_LETTER, "dead-lettered")


@app.command("delay")
@dataclass(kw_only=True)
class Delay(_Acting):
    """Give waiting records another due time, earlier or later. The number of their deliveries stays.

    Exit code 1 as of deliver-now.
    """

    due: Annotated[
        str,
        typer.Option(
            "--due", metavar="TIME", help="2h: in two hours; or a time such as 08:00 or 2026-03-01T08:00 (UTC)."
        ),
    ]

    def __call__(self) -> None:
        """Run the command."""
        self._act(WaitingAction.DELAY, "due at", self.due)


@app.command()
def cancel(
    request: Annotated[list[str], typer.Argument(metavar="ID", help="The id of an action, as in the list.")],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Cancel actions that have not ended. What they have done stays done."""
    from kafka_redelivery.consumers.operations.acting import open_requests, withdraw
    from kafka_redelivery.dead_letters.audit import write_note
    from kafka_redelivery.dead_letters.ledger import author

    settings = load(config, overrides)
    cancelled = open_requests(settings, request)
    write_note(settings, author(), "cancel waiting", ", ".join(request))
    withdraw(settings, cancelled)
    if as_json:
        print_json({"ok": True, "requests": [each.document() for each in cancelled]})
    else:
        for each in cancelled:
            print_text(printable_line(f"cancelled: {each}"))


def _line(each: "Waiting", settings: Settings) -> str:
    deliveries = each.lineage.deliveries
    parts = [f"due {printable_time(each.due_ms)}", f"{each.partition}@{each.offset}"]
    if each.key is not None and not settings.failure_details.class_only:
        parts.append(f"key {each.key.decode(errors='replace')}")
    parts.append("delivered once" if deliveries == 1 else f"delivered {deliveries} times")
    parts.append(": ".join(filter(None, (each.cause.exception, each.cause.message))))
    return f"{each.lineage.message_id}: {', '.join(filter(None, parts))}"


def _document(each: "Waiting") -> dict[str, Any]:
    return {
        "id": each.lineage.message_id,
        "topic": each.partition.topic,
        "partition": each.partition.number,
        "offset": each.offset,
        "dueMs": each.due_ms,
        "deliveries": each.lineage.deliveries,
        "exception": each.cause.exception or None,
    }
