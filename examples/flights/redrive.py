"""The second half of ``--redrive``: the cause is fixed, and the dead letters are sent again.

An operator would enter the same commands.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from examples.flights.accounting import Accounting
from examples.flights.children import command
from examples.flights.truth import Ending

SELECTION: Final = ("--exception", "UnknownPlaneError")
"""All flights whose plane was not known. Some planes still are not."""

_REDRIVE_S: Final = 600.0
"""For a year: each command reads more than 100,000 dead letters."""

_COUNTED: Final = ("letters", "sent", "recovered", "deadAgain", "unknown", "parked", "refused", "gone")


def list_letters(servers: str, directory: Path, console: Console) -> None:
    """Show the dead letters.

    Raises:
        ChildEndedError: the command failed.
    """
    _show(("dlq", "list"), servers, directory / "list.log", console)


def send_again(servers: str, directory: Path, console: Console) -> None:
    """Send the dead letters of the flights with unknown planes again.

    Raises:
        ChildEndedError: the command failed.
    """
    _show(("dlq", "redrive", *SELECTION, "--yes"), servers, directory / "redrive.log", console)


def job(servers: str, directory: Path) -> Mapping[str, int]:
    """What the only job says about its letters.

    Raises:
        ChildEndedError: the command failed.
    """
    log = command(("dlq", "jobs", "--json"), servers, directory / "jobs.log", _REDRIVE_S)
    (found,) = json.loads(log)["jobs"]
    return {name: int(found[name]) for name in _COUNTED}


def check_job(accounting: Accounting, found: Mapping[str, int]) -> None:
    """Verify that the job tells of each letter what the CSV files say."""
    again = Counter(each.again for each in accounting.expected if each.again is not None)
    expected = dict.fromkeys(_COUNTED, 0) | {
        "letters": again.total(),
        "sent": again.total(),
        "recovered": again[Ending.RECOVERED],
        "deadAgain": again[Ending.REDELIVERIES_EXCEEDED],
    }
    for name, number in expected.items():
        if found[name] != number:
            accounting.faults.add(f"the redrive job has {name} {found[name]}, expected {number}")


def _show(verbs: Sequence[str], servers: str, log: Path, console: Console) -> None:
    """Run a command and show it with its result, as in a terminal."""
    console.print(f"$ redelivery {' '.join(verbs)}", style="bold", highlight=False, soft_wrap=True)
    console.print(command(verbs, servers, log, _REDRIVE_S).rstrip(), highlight=False, soft_wrap=True)
