"""A text in the user's editor."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from kafka_redelivery.consumers.errors import RedriveError

_DEFAULT = "vi"


def edited(text: str, suffix: str) -> bytes:
    """Return what the user makes of a text in ``$VISUAL`` or ``$EDITOR``.

    The file, and what an editor puts beside it, is in a folder that only the user can open, and that is removed. The
    editor is started without a shell.

    Raises:
        typer.BadParameter: there is no editor.
        RedriveError: the editor ended with an error, or has removed the file.
    """
    command = _command()
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


def _command() -> list[str]:
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(given)
    except ValueError as error:
        raise typer.BadParameter(f"{given!r}: {error}", param_hint="EDITOR") from None
    if not command and shutil.which(_DEFAULT) is None:
        raise typer.BadParameter("set VISUAL or EDITOR, or edit a file and give it with --file", param_hint="EDITOR")
    return command or [_DEFAULT]
