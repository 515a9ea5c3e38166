"""A PostgreSQL server of the tests, in a folder of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

from kafka_redelivery.transport.broker.guard import GuardedProcess
from tests.scenarios.waiting import until

_USER: Final = "postgres"
"""PostgreSQL does not run as root. The Debian package makes this user."""

_START_S: Final = 60.0


def _program(name: str) -> str:
    """Return the path of a program of the server, which Debian leaves out of PATH."""
    found = shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=None)
    if found is None:
        pytest.skip(f"needs {name}: ./dev doctor")
    return found


@contextmanager
def server() -> Iterator[str]:
    """Run a server that listens on a Unix socket alone; yield what drivers connect with.

    It keeps nothing for after a crash of the machine, so it starts sooner.
    """
    initdb, program = _program("initdb"), _program("postgres")
    root = os.geteuid() == 0
    as_user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if root else []
    # The path of a socket has at most 107 bytes, which pytest's folders exceed, and the server's user has to reach it.
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder, data = Path(name), Path(name) / "data"
        if root:
            shutil.chown(folder, _USER, _USER)
        create = (initdb, "--no-sync", "--auth=trust", "--username=tests", "--encoding=UTF8", "--locale=C", str(data))
        subprocess.run([*as_user, *create], check=True, capture_output=True, cwd=folder)
        options = ("fsync=off", "listen_addresses=", f"unix_socket_directories={folder}", "max_connections=50")
        with (folder / "log").open("wb") as log:
            process = GuardedProcess(
                [*as_user, program, "-D", str(data), *[f"-c{option}" for option in options]], stdout=log, stderr=log
            )
        address = f"postgresql://tests@/postgres?host={folder}"
        try:
            until(lambda: _answers(address), "PostgreSQL answers", within_s=_START_S)
            yield address
        finally:
            os.kill(process.pid, signal.SIGQUIT)  # without a checkpoint; its own processes end, too
            process.wait(_START_S)


def _answers(address: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(address):
        return True
    return False
