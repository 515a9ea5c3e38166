"""What the command's exit code tells. Part of its interface: never changed, only added to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OK: Final = 0
FAILED: Final = 1
"""A check found faults, or the job failed."""

USAGE: Final = 2
"""The command line itself is wrong."""

CONFIGURATION: Final = 3
"""The configuration has faults."""

BROKER_UNAVAILABLE: Final = 4
"""No broker answered in time."""

TOPOLOGY_REFUSED: Final = 5
"""The cluster's topics would lose records; nothing was started."""

HALTED: Final = 6
"""A worker, scheduler or query stopped to protect data."""

INTERNAL: Final = 70
"""A fault of ours."""

NAMES: Final[Mapping[int, str]] = {
    FAILED: "failed",
    USAGE: "usage",
    CONFIGURATION: "configuration",
    BROKER_UNAVAILABLE: "broker_unavailable",
    TOPOLOGY_REFUSED: "topology_refused",
    HALTED: "halted",
    INTERNAL: "internal",
}
"""What an error with this code is called in JSON."""

MEANINGS: Final[Mapping[int, str]] = {
    OK: "done",
    FAILED: "a check found faults, or the job failed",
    USAGE: "the command line is wrong",
    CONFIGURATION: "the configuration has faults",
    BROKER_UNAVAILABLE: "no broker answered in time",
    TOPOLOGY_REFUSED: "the topics would lose records; nothing was started",
    HALTED: "a worker, scheduler or query stopped to protect data",
    INTERNAL: "a fault of this program",
}
"""The codes as the command's help lists them."""
