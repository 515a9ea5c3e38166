"""``python -m tests.bench.passed``: the functions and files that one failed record passes in a worker and a scheduler.

A process lists what its threads call from just before the record is written until it has been moved on, and what they
call in as long a time without a record.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

import kafka_redelivery
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.bench.bed import Bed, Team
from tests.bench.feed import feed
from tests.bench.options import Options
from tests.scenarios.running import Process, Role

_DELAY_MS: Final = 3000
_IDLE_S: Final = 6.0
_AROUND_S: Final = 0.3
_REPORTS_S: Final = 1.5
"""Longer than the time between two reports of a process."""

_Found = Mapping[str, list[str]]
"""The functions called, by file."""


def fail(_: object) -> None:
    """Let each record wait for its next delivery."""
    raise RuntimeError("as planned")


class _Calls:
    """Lists the functions of the product that are called between two signals."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._root = f"{Path(kafka_redelivery.__file__).parent}/"
        self._found: set[CodeType] | None = None
        signal.signal(signal.SIGUSR1, self._toggle)
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if self._found is not None and event == "call":
            self._found.add(frame.f_code)

    def _toggle(self, *_: object) -> None:
        if self._found is None:
            self._found = set()
            return
        found, self._found = self._found, None
        names = defaultdict(set)
        for code in found:
            # A comprehension or lambda is part of its function.
            if code.co_filename.startswith(self._root) and not code.co_name.startswith("<"):
                names[code.co_filename.removeprefix(self._root)].add(f"{code.co_name}:{code.co_firstlineno}")
        written = self._file.with_suffix(".part")
        written.write_text(json.dumps({file: sorted(each) for file, each in names.items()}), encoding="utf-8")
        written.rename(self._file)


class _Listing:
    """What a process calls between :meth:`begin` and :meth:`end`."""

    def __init__(self, team: Team, role: Role) -> None:
        self._team = team
        self._file = team.folder / f"{role}.json"
        self._process: Process = team.start(role, program=("-m", "tests.bench.passed", str(self._file)))

    def begin(self) -> None:
        os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(_AROUND_S)

    def end(self, done: Callable[[], bool]) -> _Found:
        self._team.until(done, "the record is moved on")
        time.sleep(_AROUND_S)
        os.kill(self._process.pid, signal.SIGUSR1)
        self._team.until(self._file.exists, "the functions are listed")
        found: _Found = json.loads(self._file.read_text(encoding="utf-8"))
        self._file.unlink()
        return found


def _report(role: str, found: _Found, idle: _Found) -> str:
    its_own = {file: set(names) - set(idle.get(file, ())) for file, names in found.items()}
    number, files = sum(map(len, its_own.values())), sum(map(bool, its_own.values()))
    title = f"{role}: {number} functions in {files} files; "
    title += f"{sum(map(len, found.values()))} in {len(found)} with those, in brackets, that an idle process calls, too"
    listed = (
        f"  {file}: {', '.join(name if name in its_own[file] else f'({name})' for name in found[file])}"
        for file in sorted(found)
    )
    return "\n".join([title, *listed, ""])


def _run() -> None:
    policy = {"redeliveryPolicy": {"initialRedeliveryDelay": _DELAY_MS, "maximumRedeliveries": 1}}
    with tempfile.TemporaryDirectory() as name, EmbeddedKafka() as kafka:
        bed = Bed(kafka, Path(name))
        with bed.team(bed.topic("source", 1), "passed:fail", Options(partitions=1), policyEntry=policy) as team:
            worker, scheduler = _Listing(team, "worker"), _Listing(team, "scheduler")
            tier, ready = team.settings.naming().tier_topic(_DELAY_MS), team.ready
            time.sleep(_IDLE_S)
            idle = []
            for each in (worker, scheduler):
                each.begin()
                time.sleep(_REPORTS_S)
                idle.append(each.end(lambda: True))
            for each in (worker, scheduler):
                each.begin()
            feed(bed.servers, team.source, 1, value_bytes=100, keys=1)
            sys.stdout.write(_report("worker", worker.end(lambda: len(bed.cluster.read(tier)) == 1), idle[0]))
            sys.stdout.write(_report("scheduler", scheduler.end(lambda: len(bed.cluster.read(ready)) == 1), idle[1]))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        _run()
    else:
        _Calls(Path(sys.argv[1]))
        from kafka_redelivery.cli.main import app

        app(sys.argv[2:], standalone_mode=False)
