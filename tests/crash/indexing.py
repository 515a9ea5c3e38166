"""Brings an index up to date in a process that kills itself before one of its steps on the disk.

``python -m tests.crash.indexing CONFIGURATION FOLDER NUMBER``: SIGKILL before the ``NUMBER``-th step; exit code 0 if
there are fewer. The steps are the calls that write, synchronise, rename, delete and lock files. Files are small, so
that one refresh writes, publishes and merges several.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from kafka_redelivery.dead_letters.index import refresh, store
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.topology.config.loading import load_settings

ROWS = 10
"""Letters in a file."""


def shrink() -> None:
    """Make files small."""
    refresh._FILE_ROWS = ROWS  # type: ignore[misc]
    store._SMALL_FILES = 3  # type: ignore[misc]


def set_traps(number: int) -> None:
    """Kill this process before the ``number``-th step."""
    left = number

    def trapped(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def run(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - those of any call
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return run

    for owner, name in (
        (fcntl, "flock"),
        (os, "fsync"),
        (Path, "replace"),
        (Path, "unlink"),
        (Path, "touch"),
        (Path, "chmod"),
        (store, "run"),
    ):
        setattr(owner, name, trapped(getattr(owner, name)))


def main() -> None:
    """Run one refresh."""
    configuration, folder, number = sys.argv[1:]
    settings = load_settings(Path(configuration).read_text(encoding="utf-8"))
    shrink()
    index = Index.open(settings, path=Path(folder))
    set_traps(int(number))
    index.refresh()


if __name__ == "__main__":
    main()
