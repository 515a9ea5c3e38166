"""`redelivery console` in a process of its own."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.waiting import LONG_S, until

_ADDRESS = re.compile(r"^console of group \S+: (https?://\S+)$", re.MULTILINE)

TOKENS = {name: f"{name}-0123456789abcdef" for name in ("vera", "otto", "ada")}
"""The tokens of a viewer, an operator and an admin."""


@dataclass(frozen=True, slots=True)
class Served:
    """A console that runs."""

    process: Process
    address: str

    @property
    def log(self) -> str:
        """What it has printed and logged."""
        return self.process.own_log

    def stop(self) -> None:
        """Send SIGTERM; it must end with exit code 0."""
        self.process.terminate()
        self.process.finish_stopping(LONG_S)


def serve(group: Group, *options: str, name: str = "console") -> Served:
    """Start a console on a free port, and wait until it has printed its address."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REDELIVERY_")}
    command = [*COMMAND, "console", f"--config={group.file}", f"--index={group.folder / 'indexes'}", "--port=0"]
    # A fresh interpreter: DuckDB must not be loaded before a fork.
    process = Process(name, [*command, *options], environment, group.folder / f"{name}.log")
    group.processes.append(process)

    def printed() -> str:
        assert process.running, f"the console has ended:\n{process.own_log}"
        found = _ADDRESS.search(process.own_log)
        return found[1] if found else ""

    return Served(process, until(printed, "the console has printed its address"))


@contextmanager
def serving(group: Group, *options: str, name: str = "console") -> Iterator[Served]:
    """Start a console, and stop it at the end, which must go well."""
    served = serve(group, *options, name=name)
    yield served
    served.stop()


def token_file(folder: Path) -> Path:
    """Write a file with the tokens of ``vera``, a viewer, ``otto``, an operator, and ``ada``, an admin."""
    roles = {"vera": "viewer", "otto": "operator", "ada": "admin"}
    file = folder / "tokens"
    file.write_text("".join(f"{name} {role} {TOKENS[name]}\n" for name, role in roles.items()), encoding="utf-8")
    file.chmod(0o600)
    return file
