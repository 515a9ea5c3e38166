"""`redelivery dlq show` and `redelivery dlq edit`: one dead letter."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kafka_redelivery.cli.commands.dlq import run_job
from kafka_redelivery.cli.commands.dlq_options import (
    CreateTopics,
    DrySending,
    KeepAttempts,
    OfGroup,
    OnLetters,
    Ready,
    To,
    create_missing,
    load_letters,
)
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    Note,
    Overrides,
    Yes,
    ask,
    refuse_without_question,
)
from kafka_redelivery.cli.output import confirm, print_bytes, print_json, stderr, stdout
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.redrive.job import MAX_REDRIVES, JobOptions

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.editing import LetterEditing
    from kafka_redelivery.dead_letters.showing import Shown

LetterId = Annotated[str, typer.Argument(metavar="ID", help="TOPIC-PARTITION@OFFSET, as `dlq list --each` prints it.")]

_PREVIOUS: Final = "previous"
_EDITOR: Final = "vi"


def show(
    letter: LetterId,
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
    from kafka_redelivery.cli.views.dlq import unread_partitions
    from kafka_redelivery.cli.views.letter import print_shown
    from kafka_redelivery.dead_letters.decoding import LetterCodecs
    from kafka_redelivery.dead_letters.ledger import Ledger
    from kafka_redelivery.dead_letters.letter_jobs import found_letter
    from kafka_redelivery.dead_letters.showing import previous, shown_document, shown_of

    if raw is not None and (diff is not None or as_json or full):
        raise OptionError("raw", "--raw prints bytes only; leave out --diff, --full and --json")
    settings = load_letters(config, overrides)
    ledger, decodes = Ledger(settings, of_group, skip_leaderless=True), LetterCodecs(settings, config.parent)

    def read(name: str, *, with_story: bool = False) -> Shown:
        found, history = found_letter(settings, ledger, name, skip_leaderless=True)
        return shown_of(settings, decodes, found, ledger, history, with_story=with_story)

    shown = read(letter, with_story=raw is None and diff is None)
    if raw is not None:
        print_bytes(_part(shown, raw))
    elif diff is not None:
        other = previous(ledger, shown.found.letter) if diff == _PREVIOUS else diff
        _print_difference(read(other), shown, as_json=as_json)
    elif as_json:
        print_json({"ok": True, **shown_document(shown), **unread_partitions(ledger.unread)})
    else:
        print_shown(stdout(), shown, full=full)


def _part(shown: Shown, name: str) -> bytes:
    """Return the bytes that ``--raw`` asks for; nothing for a null.

    Raises:
        RedriveError: the configuration hides them, or there is no such header.
        OptionError: it asks for something else.
    """
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
    raise OptionError("raw", f"{name!r} is none of value, key, header:NAME")


def _print_difference(before: Shown, after: Shown, *, as_json: bool) -> None:
    from kafka_redelivery.cli.views.letter import lines_of, print_diff
    from kafka_redelivery.dead_letters.differences import changes
    from kafka_redelivery.dead_letters.showing import content_document

    old, new = content_document(before), content_document(after)
    names = before.found.letter.id, after.found.letter.id
    if as_json:
        found = list(changes(old, new))
        print_json({"ok": True, "before": names[0], "after": names[1], "changes": found})
    elif old == new:
        stdout().print("key, headers and value are equal")
    else:
        print_diff(stdout(), lines_of(old), lines_of(new), names)


@dataclass(frozen=True, kw_only=True)
class Edit(OnLetters):
    """Edit the decoded value of one dead letter in $EDITOR, and send it again by a job of its own, exactly once.

    The value is written with the codec, and the schema, of the original. The letter stays as it is; the job says who
    has edited it. A value that could not be written back byte for byte, or in Protobuf as an equal message, is refused.
    Exit code 1 if it was not sent.
    """

    letter: LetterId
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="The edited value, instead of the editor; - reads the input."),
    ] = None
    print_value: Annotated[
        bool, typer.Option("--print", help="Print the value as it would be edited; change nothing.")
    ] = False
    to: To = None
    ready: Ready = None
    again: Annotated[bool, typer.Option("--again", help="Also if it was sent before.")] = False
    keep_attempts: KeepAttempts = False
    max_redrives: Annotated[
        int, typer.Option("--max-redrives", min=1, help="A record sent again so often is not edited.")
    ] = MAX_REDRIVES
    create_topics: CreateTopics = False
    dry_run: DrySending = False
    note: Note = ""
    yes: Yes = False
    as_json: AsJson = False

    def __call__(self) -> None:
        """Show what differs, ask, and send it."""
        from kafka_redelivery.dead_letters.editing import LetterEditing
        from kafka_redelivery.dead_letters.jobs import OpenJob

        if not self.print_value:
            refuse_without_question(dry_run=self.dry_run, yes=self.yes, as_json=self.as_json)
            if self.file is None and not has_terminal():
                raise OptionError("file", "there is no terminal for an editor; name the edited value with --file FILE")
        settings = self.settings()
        options = JobOptions(
            group=self.of_group or settings.group,
            to=self.to,
            ready=self.ready,
            keep_attempts=self.keep_attempts,
            again=self.again or self.print_value,
            max_redrives=self.max_redrives,
        )
        editing = LetterEditing(settings, self.base, self.letter, options)
        if self.print_value:
            print_bytes(editing.form.text.encode() + b"\n")
            return
        value = _from_editor(editing) if self.file is None else editing.encode(_text(_content(self.file)))
        if value == editing.original:
            if self.as_json:
                print_json({"ok": True, "id": self.letter, "job": None, "changed": False})
            else:
                stdout().print("nothing changed, so nothing is sent")
            return
        document = self._preview(editing, value)
        if self.dry_run:
            if self.as_json:
                print_json({"ok": True, "dryRun": True, "job": None, **document})
            else:
                stdout().print("dry run: nothing was changed")
            return
        if not self.yes:
            ask("send it?")
        create_missing(settings, create=self.create_topics, yes=self.yes, as_json=self.as_json)
        job = editing.create(value, note=self.note)
        run_job(OpenJob(settings, editing.ledger, job.id), as_json=self.as_json, created=True)

    def _preview(self, editing: LetterEditing, value: bytes) -> dict[str, Any]:
        """Show what differs, and return it as plain data for JSON."""
        from kafka_redelivery.cli.views.letter import print_diff

        name, before, after = editing.found.letter.id, editing.form.text, editing.text_of(value)
        if not self.as_json:
            print_diff(stdout(), before, after, (name, f"{name} (edited)"))
            stdout().print(f"{len(editing.original)} bytes become {len(value)}, sent to {editing.target}")
        return {
            "id": name,
            "changed": True,
            "target": editing.target,
            "originalBytes": len(editing.original),
            "bytes": len(value),
        }


def has_terminal() -> bool:
    """Whether an editor can be used."""
    return sys.stdin.isatty()


def _from_editor(editing: LetterEditing) -> bytes:
    """Return the value that the user has edited; a text that is no value may be edited again."""
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
        raise OptionError("file", f"{file} cannot be read: {error}") from None


def _text(data: bytes) -> str:
    """Return the text of a file; one line break at its end does not belong to the value."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RedriveError(f"what was edited is not UTF-8 text: {error}") from None
    return text.removesuffix("\n")


def edited(text: str, suffix: str) -> bytes:
    """Return what the user makes of a text in ``$VISUAL`` or ``$EDITOR``.

    The file, and what an editor puts beside it, is in a folder that only the user can open, and that is removed. The
    editor is started without a shell.

    Raises:
        typer.BadParameter: there is no editor.
        RedriveError: the editor ended with an error, or has removed the file.
    """
    command = _editor_command()
    with TemporaryDirectory(prefix="redelivery-") as folder:  # mode 0700
        file = Path(folder) / f"letter{suffix}"
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as target:
            target.write(text.encode() + b"\n")
        # Ctrl-C is for the editor. A handler, unlike "ignore", is not inherited by it.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode
        except OSError as error:
            raise typer.BadParameter(f"{command[0]} cannot be started: {error.strerror}", param_hint="EDITOR") from None
        finally:
            signal.signal(signal.SIGINT, before)
        if code != 0:
            raise RedriveError(f"the editor {command[0]} ended with code {code}, so nothing is sent")
        try:
            return file.read_bytes()
        except OSError as error:
            raise RedriveError(f"the edited file cannot be read: {error.strerror}, so nothing is sent") from None


def _editor_command() -> list[str]:
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(given)
    except ValueError as error:
        raise typer.BadParameter(f"{given!r}: {error}", param_hint="EDITOR") from None
    if not command and shutil.which(_EDITOR) is None:
        raise typer.BadParameter("set VISUAL or EDITOR, or edit a file and give it with --file", param_hint="EDITOR")
    return command or [_EDITOR]
