"""`./dev test` and `./dev verify`: chooses tests, and runs pytest on them.

python -m tests test [AREA | PATH ...] [ARGS of pytest]
python -m tests verify [ARGS of pytest]
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.areas import AREAS, QUICK

_ROOT: Final = Path(__file__).parents[1]
_EVERYWHERE: Final = ("--crash", "--long")
_QUICK_PROCESSES: Final = 2
_PROCESSES: Final = 4
"""Most other tests wait for processes, so four files run concurrently on two cores."""
_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
_UNSTEADY: Final = 2
"""More failures than this are no accident of a busy machine."""


def runs(command: str, arguments: list[str]) -> list[list[str]]:
    """Return the arguments of each run of pytest.

    Without an area or a path ``test`` runs the quick tests, and ``verify`` these and then all others: a slip of the pen
    shows within a minute, and no process collects what another run has.
    """
    places: list[str] = []
    others: list[str] = []
    for argument in arguments:
        if argument in AREAS:
            places += AREAS[argument]
        elif not argument.startswith("-") and (_ROOT / argument.partition("::")[0]).exists():
            places.append(argument)
        else:
            others.append(argument)
    if command == "verify":
        others = ["--maxfail=5", *others]
        if not places:
            rest = [f"--ignore={place}" for place in QUICK]
            return [
                _run(QUICK, ["--hypothesis-profile=usual", *others]),
                _run(["tests"], ["--durations=20", *rest, *others]),
            ]
    if not places:
        places = ["tests"] if any(each in others for each in _EVERYWHERE) else list(QUICK)
    return [_run(places, others)]


def _run(places: Sequence[str], others: list[str]) -> list[str]:
    quick = all(place.startswith(QUICK) for place in places)
    return [f"--numprocesses={_QUICK_PROCESSES if quick else _PROCESSES}", "--dist=loadfile", *others, *places]


def _verify(run: list[str]) -> int:
    """Run all other tests, and the one or two that fail once more, alone: four processes share two cores with brokers.

    A test that passes only then is listed. It is to be made steady, and must not hide in the log.
    """
    _FAILED.unlink(missing_ok=True)
    code = _pytest(run)
    failed = list(json.loads(_FAILED.read_text(encoding="utf-8"))) if _FAILED.exists() else []
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= _UNSTEADY:
        return code
    print("\nThese tests failed and run once more, alone:", *failed, sep="\n  ", flush=True)  # noqa: T201 - for a person
    code = _pytest(["--numprocesses=0", *failed])
    if code == pytest.ExitCode.OK:
        print("UNSTEADY, passed only alone:", *failed, sep="\n  ", flush=True)  # noqa: T201 - for a person
    return code


def _compiled(run: list[str]) -> subprocess.Popen[bytes] | None:
    """Compile in a new checkout what a later run imports, beside the one before it.

    All of its processes collect at the same time, so that each of them would compile all of it.
    """
    if Path(".pytest_cache").exists():
        return None
    command = ["pytest", "--collect-only", "--numprocesses=0", *run[1:]]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _pytest(arguments: list[str]) -> int:
    return subprocess.run(["pytest", *arguments], check=False).returncode  # noqa: S607 - of this environment


if __name__ == "__main__":
    os.chdir(_ROOT)
    *first, last = runs(sys.argv[1], sys.argv[2:])
    compiling = _compiled(last) if first else None
    for each in first:
        if code := _pytest(each):
            if compiling:
                compiling.kill()
            sys.exit(code)
    if compiling:
        compiling.wait()
    if first:
        sys.exit(_verify(last))
    os.execvp("pytest", ["pytest", *last])  # noqa: S606, S607 - of this environment
