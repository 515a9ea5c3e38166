"""`redelivery outage`: which dependencies are away, and the word of an operator about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafka_redelivery.cli.commands.pauses import UNTIL, WAIT, Wait, print_applied
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    Overrides,
    Yes,
    ask,
    duration,
    load,
    refuse_without_question,
)
from kafka_redelivery.cli.output import print_json, print_text
from kafka_redelivery.topology.printable import printable_line

if TYPE_CHECKING:
    from kafka_redelivery.topology.config.settings import Settings


def outage(
    name: Annotated[str | None, typer.Argument(help="A dependency of the configuration. Default: all.")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    opens: Annotated[bool, typer.Option("--open", help="It is away: nothing that needs it is tried.")] = False,
    closes: Annotated[bool, typer.Option("--close", help="It is back: the load rises at once.")] = False,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help=UNTIL)] = None,
    yes: Yes = False,
    wait: Wait = WAIT,
    as_json: AsJson = False,
) -> None:
    """Show which dependencies are away, since when and who says so; or say that one is away, or back.

    While a dependency is away, records that need it wait and lose no attempt. What is opened here holds for all
    workers, until it is closed or the time is over. It asks before it opens.
    Processes obey within two seconds. Exit code 1 if some do not: they obey when they can.
    """
    from kafka_redelivery.consumers.operations.outages import look_at_outages, unknown_dependency

    wait_s = duration(wait, "--wait").total_seconds()
    _refuse_contradictions(name, until, opens=opens, closes=closes)
    if opens:
        refuse_without_question(yes=yes, as_json=as_json)
    settings = load(config, overrides)
    if name is not None and (problem := unknown_dependency(settings, name)):
        raise typer.BadParameter(problem, param_hint="NAME")
    if name is not None and (opens or closes):
        _decide(settings, name, until, wait_s, opens=opens, yes=yes, as_json=as_json)
        return
    found = [each for each in look_at_outages(settings) if name in {None, each.name}]
    if as_json:
        print_json({"ok": True, "outages": [each.document() for each in found]})
        return
    for each in found:
        print_text(printable_line(str(each)))
    if not found:
        print_text("the configuration has no dependencies")


def _refuse_contradictions(name: str | None, until: str | None, *, opens: bool, closes: bool) -> None:
    if opens and closes:
        raise typer.BadParameter("leave out --open or --close", param_hint="--open")
    if (opens or closes) and name is None:
        raise typer.BadParameter("name the dependency", param_hint="NAME")
    if until is not None and not opens:
        raise typer.BadParameter("it needs --open", param_hint="--until")


def _decide(
    settings: Settings, name: str, until: str | None, wait_s: float, *, opens: bool, yes: bool, as_json: bool
) -> None:
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.consumers.operations import outages
    from kafka_redelivery.consumers.operations.pausing import end_of_pause
    from kafka_redelivery.dead_letters.audit import note_outage
    from kafka_redelivery.dead_letters.ledger import author
    from kafka_redelivery.transport.admin.group_members import GroupMembers

    until_ms = None if until is None else end_of_pause(until, wall_clock_ms())
    if opens and not yes:
        ask(f"let the records of group {settings.group} that need {name} wait?")
    listing = GroupMembers(settings.kafka, every_protocol=True)
    note_outage(settings, author(), name, until_ms, opens=opens)
    if opens:
        seen = outages.open_outage(settings, name, author(), until_ms, wait_s, listing)
    else:
        seen = outages.close_outage(settings, name, author(), wait_s, listing)
    [state] = [each for each in outages.look_at_outages(settings) if each.name == name]
    print_applied(seen, [str(state)], {"outages": [state.document()]}, as_json=as_json)
