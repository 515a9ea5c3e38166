"""The command line under cProfile, with a file for the polling thread and one for each slot.

``python -m tests.bench.profiled FOLDER worker --config ...``; look at a file with ``python -m pstats FILE``.
"""

import cProfile
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.options import Options
from tests.scenarios.running import COMMAND


def program(options: Options) -> Sequence[str]:
    """Return the command that starts a process, plainly or under the profiler."""
    return COMMAND if options.profile is None else ("-m", "tests.bench.profiled", str(options.profile.absolute()))


@contextmanager
def _profile(file: Path) -> Iterator[None]:
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(file)


def _watch_threads(folder: Path, role: str) -> None:
    plain = threading.Thread.run

    def run(self: threading.Thread) -> None:
        if not self.name.startswith("slot"):
            plain(self)
            return
        with _profile(folder / f"{role}-{self.name}.prof"):
            plain(self)

    threading.Thread.run = run  # type: ignore[method-assign]


if __name__ == "__main__":
    from kafka_redelivery.cli.main import app

    folder, role = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    # From Python 3.12 on, only one thread at a time can have a profiler.
    if sys.version_info < (3, 12):
        _watch_threads(folder, role)
    with _profile(folder / f"{role}-polling.prof"):
        app(sys.argv[2:], standalone_mode=False)
