"""The command line as a user runs it: a separate process with its output and exit code."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.running import COMMAND

_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command that has ended."""

    code: int
    out: str
    err: str


def redelivery(*arguments: str, file: Path) -> Done:
    """Run ``redelivery`` on a configuration file and wait for its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDELIVERY_")}
    done = subprocess.run(
        [sys.executable, *COMMAND, *arguments, "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        env=environment,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
