"""`redelivery pause` and `redelivery resume`: stop handling and releasing for a while, without stopping a process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    Note,
    Overrides,
    Yes,
    ask,
    can_ask,
    duration,
    load,
)
from kafka_redelivery.cli.output import print_json, print_text, stderr
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.printable import printable_line

if TYPE_CHECKING:
    from kafka_redelivery.consumers.operations.pausing import AppliedPauses
    from kafka_redelivery.topology.config.settings import Settings
    from kafka_redelivery.topology.wire.pauses import PauseTarget

Sources = Annotated[
    list[str] | None, typer.Option("--source", metavar="TOPIC", help="A source and its ready topic; repeatable.")
]
Tiers = Annotated[
    list[str] | None, typer.Option("--tier", metavar="TIER", help="A retry topic, or its delay such as 2s; repeatable.")
]
Everything = Annotated[bool, typer.Option("--all", help="All sources and tiers of the group, without a question.")]
Wait = Annotated[str, typer.Option("--wait", metavar="DURATION", help="How long to wait for the processes.")]

WAIT = "10s"
UNTIL = "2h: for two hours; or a time such as 08:00 or 2026-03-01T08:00 (UTC)."


def pause(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    source: Sources = None,
    tier: Tiers = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help=UNTIL)] = None,
    note: Note = "",
    everything: Everything = False,
    yes: Yes = False,
    wait: Wait = WAIT,
    as_json: AsJson = False,
) -> None:
    """Pause the group, or the sources and tiers that are named.

    Without --source, --tier and --all it asks whether to pause the whole group.
    Handler calls in progress end; no other begins until `redelivery resume`, or until the time given. Processes obey
    within two seconds. Exit code 1 if some do not: the pause stays, and they obey when they can.
    """
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.consumers.operations import pausing
    from kafka_redelivery.dead_letters.ledger import author
    from kafka_redelivery.transport.admin.group_members import GroupMembers

    wait_s = duration(wait, "--wait").total_seconds()
    asks = _asks(source, tier, everything=everything, yes=yes, as_json=as_json)
    settings = load(config, overrides)
    until_ms = None if until is None else pausing.end_of_pause(until, wall_clock_ms())
    targets = _targets(settings, source, tier)
    if asks:
        ask(f"pause all sources and tiers of the group {settings.group}?")
    listing = GroupMembers(settings.kafka, every_protocol=True)
    on_written = partial(_note, settings, targets, until_ms, note, pauses=True)
    seen = pausing.pause(settings, targets, until_ms, wait_s, listing, by=author(), note=note, on_written=on_written)
    _print(seen, as_json=as_json)


def resume(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    source: Sources = None,
    tier: Tiers = None,
    note: Note = "",
    everything: Everything = False,
    yes: Yes = False,
    wait: Wait = WAIT,
    as_json: AsJson = False,
) -> None:
    """End all pauses, or those of the sources and tiers that are named.

    Without --source, --tier and --all it asks whether to end all pauses of the group.
    Processes go on within two seconds. Exit code 1 if some do not.
    """
    from kafka_redelivery.consumers.operations import pausing
    from kafka_redelivery.transport.admin.group_members import GroupMembers

    wait_s = duration(wait, "--wait").total_seconds()
    asks = _asks(source, tier, everything=everything, yes=yes, as_json=as_json)
    settings = load(config, overrides)
    targets = _targets(settings, source, tier) if source or tier else []
    if asks:
        ask(f"end all pauses of the group {settings.group}?")
    listing = GroupMembers(settings.kafka, every_protocol=True)
    on_written = partial(_note, settings, targets, None, note, pauses=False)
    seen = pausing.resume(settings, targets, wait_s, listing, on_written=on_written)
    _print(seen, as_json=as_json)


def _note(
    settings: Settings, targets: Sequence[PauseTarget], until_ms: int | None, note: str, done_ms: int, *, pauses: bool
) -> None:
    """Write what was done to the audit trail. A pause is needed in an emergency, so it does not need that."""
    from kafka_redelivery.consumers.errors import RedriveError
    from kafka_redelivery.dead_letters.audit import note_pause
    from kafka_redelivery.dead_letters.ledger import author
    from kafka_redelivery.transport.errors import TransportError

    try:
        note_pause(settings, author(), targets, until_ms, note, pauses=pauses, done_ms=done_ms)
    except (RedriveError, TransportError) as error:
        stderr().print(f"it is not in the audit trail: {error}", style="yellow")
    except KeyboardInterrupt:
        stderr().print("it may not be in the audit trail: its note was interrupted", style="yellow")
        raise


def _asks(sources: list[str] | None, tiers: list[str] | None, *, everything: bool, yes: bool, as_json: bool) -> bool:
    """Whether to ask, because a forgotten ``--source`` would mean the whole group.

    Raises:
        typer.BadParameter: there is no terminal to ask on, or the options contradict each other.
    """
    if sources or tiers:
        if everything:
            raise typer.BadParameter("leave out --all, or --source and --tier", param_hint="--all")
        return False
    if everything or yes:
        return False
    if not can_ask(as_json=as_json):
        raise typer.BadParameter(
            "there is no terminal to ask on; add --all for the whole group, or name a --source or --tier",
            param_hint="--all",
        )
    return True


def _targets(settings: Settings, sources: list[str] | None, tiers: list[str] | None) -> list[PauseTarget]:
    from kafka_redelivery.consumers.operations.pausing import targets_of
    from kafka_redelivery.transport.admin.topics import TopicMetadataCache

    return targets_of(settings, sources or (), tiers or (), TopicMetadataCache(settings.kafka))


def _print(seen: AppliedPauses, *, as_json: bool) -> None:
    from kafka_redelivery.cli.views.pauses import pause_lines, pauses_document

    print_applied(seen, pause_lines(seen), pauses_document(seen), as_json=as_json)


def print_applied(seen: AppliedPauses, lines: Iterable[str], document: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what holds now and which processes obey; exit code 1 if some do not.

    Args:
        seen: the processes.
        lines: what holds, for people.
        document: the same for ``--json``.
        as_json: whether to print JSON.
    """
    from kafka_redelivery.cli.views.pauses import process_lines, processes_document

    if as_json:
        print_json({"ok": seen.whole, **document, **processes_document(seen)})
    else:
        for line in (*lines, *process_lines(seen)):
            print_text(printable_line(line))
        if not seen.whole:
            missing = (seen.members or 0) - seen.applied
            stderr().print(
                f"{missing} of {seen.members} processes do not obey yet: they are starting, cannot reach Kafka, have a "
                "version without pauses, or a scheduler was killed less than a minute ago; `redelivery status` shows "
                "when they do",
                style="yellow",
            )
    if not seen.whole:
        raise typer.Exit(exit_codes.FAILED)
