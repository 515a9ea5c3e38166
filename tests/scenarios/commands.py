"""The command line as a user runs it, with its output and exit code."""

import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from tests.scenarios.running import COMMAND
from tests.scenarios.waiting import LONG_S
from tests.scenarios.warm import WarmProcess

_WITHIN_S = LONG_S
_OURS = "REDELIVERY_"


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command that has ended."""

    code: int
    out: str
    err: str


def redelivery(*arguments: str, file: Path) -> Done:
    """Run ``redelivery`` on a configuration file in a separate process and wait for its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    command = [*COMMAND, *arguments, "--config", str(file)]
    with TemporaryFile() as out, TemporaryFile() as err:
        process = WarmProcess(command, env=environment, stdout=out, stderr=err)
        try:
            code = process.wait(_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return Done(code, out.read().decode(), err.read().decode())


def on_terminal(answer: str, *arguments: str, file: Path, within_s: float = _WITHIN_S) -> Done:
    """Run ``redelivery`` in a process whose standard input is a terminal, on which a person types one answer."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    command = [sys.executable, *COMMAND, *arguments, "--config", str(file)]
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, f"{answer}\n".encode())
        done = subprocess.run(
            command, env=environment, stdin=terminal, capture_output=True, text=True, timeout=within_s, check=False
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    return Done(done.returncode, done.stdout, done.stderr)


def topology(*arguments: str, file: Path) -> Done:
    """Run ``redelivery topology`` in this process, where a test is not about the command."""
    return in_process("topology", *arguments, file=file)


def in_process(*arguments: str, file: Path) -> Done:
    """Run ``redelivery`` in this process, which saves a second."""
    unset = dict.fromkeys(name for name in os.environ if name.startswith(_OURS))
    done = CliRunner(env=unset).invoke(app, [*arguments, "--config", str(file)])
    return Done(done.exit_code, done.stdout, done.stderr)
