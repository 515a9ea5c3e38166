"""`redelivery dlq edit`: sends one dead letter with another value."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_redelivery.cli.commands.confirmation import Yes, ask, refuse_without_question
from kafka_redelivery.cli.commands.dlq_foreign import CreateTopics, create_missing
from kafka_redelivery.cli.commands.dlq_options import (
    DEFAULT_MAX_REDRIVES,
    DrySending,
    KeepAttempts,
    Ready,
    To,
)
from kafka_redelivery.cli.commands.dlq_running import load_quietly, run_job
from kafka_redelivery.cli.commands.dlq_selection import OfGroup
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides
from kafka_redelivery.cli.output import confirm, print_bytes, print_json, stderr, stdout
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.job import JobOptions

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.editing import LetterEditing


def edit(
    letter: Annotated[str, typer.Argument(metavar="ID", help="TOPIC-PARTITION@OFFSET of the dead letter.")],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: OfGroup = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="The edited value, instead of the editor; - reads the input."),
    ] = None,
    print_value: Annotated[
        bool, typer.Option("--print", help="Print the value as it would be edited; change nothing.")
    ] = False,
    to: To = None,
    ready: Ready = None,
    again: Annotated[bool, typer.Option("--again", help="Also if it was sent before.")] = False,
    keep_attempts: KeepAttempts = False,
    max_redrives: Annotated[
        int, typer.Option("--max-redrives", min=1, help="A record sent again so often is not edited.")
    ] = DEFAULT_MAX_REDRIVES,
    create_topics: CreateTopics = False,
    dry_run: DrySending = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Edit the decoded value of one dead letter in $EDITOR, and send it again by a job of its own, exactly once.

    The value is written with the codec, and the schema, of the original. The letter stays as it is; the job says who
    has edited it. A value that could not be written back byte for byte is refused. Exit code 1 if it was not sent.
    """
    from kafka_redelivery.dead_letters.editing import LetterEditing

    if not print_value:
        refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
        if file is None and not has_terminal():
            raise typer.BadParameter(
                "there is no terminal for an editor; name the edited value with --file FILE", param_hint="--file"
            )
    settings = load_quietly(config, overrides)
    options = JobOptions(
        group=of_group or settings.group,
        to=to,
        ready=ready,
        keep_attempts=keep_attempts,
        again=again or print_value,
        max_redrives=max_redrives,
    )
    editing = LetterEditing(settings, config.parent, letter, options)
    if print_value:
        print_bytes(editing.form.text.encode() + b"\n")
        return
    value = _from_editor(editing) if file is None else editing.encode(_text(_content(file)))
    if value == editing.original:
        _print_unchanged(letter, as_json=as_json)
        return
    document = _preview(editing, value, as_json=as_json)
    if dry_run:
        if as_json:
            print_json({"ok": True, "dryRun": True, "job": None, **document})
        else:
            stdout().print("dry run: nothing was changed")
        return
    if not yes:
        ask("send it?")
    create_missing(settings, create=create_topics, yes=yes, as_json=as_json)
    job = editing.create(value)
    if not as_json:
        stdout().print(f"job {job.id} is created")
    run_job(settings, editing.ledger, job.id, as_json=as_json)


def has_terminal() -> bool:
    """Whether an editor can be used."""
    return sys.stdin.isatty()


def _from_editor(editing: LetterEditing) -> bytes:
    """Return the value that the user has edited; a text that is no value may be edited again."""
    from kafka_redelivery.cli.editor import edited
    from kafka_redelivery.consumers.errors import RedriveError

    text = editing.form.text
    while True:
        data = edited(text, editing.form.suffix)
        try:
            text = _text(data)
            return editing.encode(text)
        except RedriveError as error:
            stderr().print(f"{error}")
            if not confirm("edit it again?", default=True):
                raise typer.Exit(exit_codes.FAILED) from None


def _content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="--file") from None


def _text(data: bytes) -> str:
    """Return the text of a file; one line break at its end does not belong to the value."""
    from kafka_redelivery.consumers.errors import RedriveError

    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RedriveError(f"what was edited is not UTF-8 text: {error}") from None
    return text.removesuffix("\n")


def _print_unchanged(letter: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"ok": True, "id": letter, "job": None, "changed": False})
    else:
        stdout().print("nothing changed, so nothing is sent")


def _preview(editing: LetterEditing, value: bytes, *, as_json: bool) -> dict[str, Any]:
    """Show what differs, and return it as plain data for JSON."""
    from kafka_redelivery.cli.views.dlq_diff import print_diff

    name, before, after = editing.found.letter.id, editing.form.text, editing.text_of(value)
    if not as_json:
        console = stdout()
        print_diff(console, before, after, (name, f"{name} (edited)"))
        console.print(f"{len(editing.original)} bytes become {len(value)}, sent to {editing.target}")
    return {
        "id": name,
        "changed": True,
        "target": editing.target,
        "originalBytes": len(editing.original),
        "bytes": len(value),
    }
