"""`./dev test` and `./dev verify`: chooses tests, and runs pytest on them.

python -m tests test [AREA | PATH ...] [ARGS of pytest]
python -m tests verify [ARGS of pytest]
"""

import os
import sys
from pathlib import Path
from typing import Final

from tests.areas import AREAS, QUICK

_ROOT: Final = Path(__file__).parents[1]
_EVERYWHERE: Final = ("--crash", "--long")
_QUICK_PROCESSES: Final = 2
_PROCESSES: Final = 4
"""Most other tests wait for processes, so four files run concurrently on two cores."""


def options(command: str, arguments: list[str]) -> list[str]:
    """Return the arguments of pytest. Without an area or a path they name the quick tests, or for ``verify`` all."""
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
        others = ["--maxfail=5", "--durations=20", *others]
    if not places:
        everywhere = command == "verify" or any(each in others for each in _EVERYWHERE)
        places = ["tests"] if everywhere else list(QUICK)
    quick = all(place.startswith(QUICK) for place in places)
    return [f"--numprocesses={_QUICK_PROCESSES if quick else _PROCESSES}", "--dist=loadfile", *others, *places]


if __name__ == "__main__":
    os.chdir(_ROOT)
    os.execvp("pytest", ["pytest", *options(sys.argv[1], sys.argv[2:])])  # noqa: S606, S607 - of this environment
