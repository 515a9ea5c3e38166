"""`redelivery dlq show`: everything about one dead letter."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_redelivery.cli.commands.dlq_running import load_quietly
from kafka_redelivery.cli.commands.dlq_selection import OfGroup
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides
from kafka_redelivery.cli.output import print_bytes, print_json, stdout
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings

if TYPE_CHECKING:
    from kafka_redelivery.cli.views.dlq_show import Shown
    from kafka_redelivery.dead_letters.ledger import Ledger

_PREVIOUS = "previous"


def show(
    letter: Annotated[str, typer.Argument(metavar="ID", help="TOPIC-PARTITION@OFFSET of the dead letter.")],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: OfGroup = None,
    full: Annotated[bool, typer.Option("--full", help="Show long values to their ends.")] = False,
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw",
            metavar="PART",
            help="Print only the bytes of value, key or header:NAME, unchanged if not to a terminal.",
        ),
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff", metavar="ID", help="Show what differs from another letter; previous: from the one it was before."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: headers, decoded key and value, what became of it, and how to send it again."""
    from kafka_redelivery.cli.views.dlq_show import print_shown, shown_document
    from kafka_redelivery.dead_letters.ledger import Ledger

    if raw is not None and (diff is not None or as_json or full):
        raise typer.BadParameter("--raw prints bytes only; leave out --diff, --full and --json", param_hint="--raw")
    settings = load_quietly(config, overrides)
    ledger = Ledger(settings, of_group)
    shown = _shown(settings, ledger, config, letter, whole=raw is None and diff is None)
    if raw is not None:
        print_bytes(_part(shown, raw))
    elif diff is not None:
        other = _previous(ledger, shown) if diff == _PREVIOUS else diff
        _print_difference(_shown(settings, ledger, config, other), shown, as_json=as_json)
    elif as_json:
        print_json({"ok": True, **shown_document(shown)})
    else:
        print_shown(stdout(), shown, full=full)


def _shown(settings: Settings, ledger: Ledger, config: Path, name: str, *, whole: bool = False) -> Shown:
    """Return a letter; ``whole``: with its story, which takes more requests."""
    from kafka_redelivery.cli.views.dlq_show import Shown, sending_again
    from kafka_redelivery.dead_letters.decoding import LetterCodecs
    from kafka_redelivery.dead_letters.letter_jobs import LetterJobs, found_letter
    from kafka_redelivery.dead_letters.story import story

    found, history = found_letter(settings, ledger, name)
    letter = found.letter
    key, value = LetterCodecs(settings, config.parent).decoded(letter, found.message.value())
    command = ledger.command(*sending_again(found.standing, letter.id))
    if not isinstance(settings, ForeignTopic) and config != DEFAULT_CONFIG:
        command += f" --config {shlex.quote(str(config))}"
    told = story(settings, LetterJobs.of(ledger, letter), found) if whole else ()
    return Shown(found, key, value, history, told, command)


def _part(shown: Shown, name: str) -> bytes:
    """Return the bytes that ``--raw`` asks for; nothing for a null.

    Raises:
        RedriveError: the configuration hides them, or there is no such header.
    """
    from kafka_redelivery.consumers.errors import RedriveError
    from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE

    what, _, header = name.partition(":")
    if shown.hides_key and (what == "key" or header == FAILURE_CAUSE):
        raise RedriveError(f"failureDetails: class-only hides {name}; see docs/security.md")
    match what:
        case "value" if not header:
            return shown.found.message.value() or b""
        case "key" if not header:
            return shown.found.letter.key or b""
        case "header" if header in shown.found.letter.headers:
            return shown.found.letter.headers[header] or b""
        case "header":
            raise RedriveError(f"the letter has no header {header!r}; redelivery dlq show lists them")
    raise typer.BadParameter(f"{name!r} is none of value, key, header:NAME", param_hint="--raw")


def _previous(ledger: Ledger, shown: Shown) -> str:
    """Return the letter that this one was before it was sent again and died again.

    Raises:
        RedriveError: it was none, or its job is not known.
    """
    from kafka_redelivery.consumers.errors import RedriveError
    from kafka_redelivery.dead_letters.letter_jobs import predecessor

    found = predecessor(ledger, shown.found.letter)
    if found is None:
        raise RedriveError(f"{shown.found.letter.id} was not sent again before it died; name another letter")
    return found


def _print_difference(before: Shown, after: Shown, *, as_json: bool) -> None:
    from kafka_redelivery.cli.views.dlq_diff import changes, lines_of, print_diff
    from kafka_redelivery.cli.views.dlq_show import content_document

    old, new = content_document(before), content_document(after)
    names = before.found.letter.id, after.found.letter.id
    if as_json:
        found = list(changes(old, new))
        print_json({"ok": True, "before": names[0], "after": names[1], "changes": found})
    elif old == new:
        stdout().print("key, headers and value are equal")
    else:
        print_diff(stdout(), lines_of(old), lines_of(new), names)
