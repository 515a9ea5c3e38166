"""Exit codes of the `redelivery` command, part of its interface: codes are added, but never changed.

Each exception class names its own in the class attribute ``exit_code``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
CONFIGURATION: Final = 3
BROKER_UNAVAILABLE: Final = 4
TOPOLOGY_REFUSED: Final = 5
HALTED: Final = 6
UNSETTLED: Final = 7
INTERNAL: Final = 70

NAMES: Final[Mapping[int, str]] = {
    FAILED: "failed",
    USAGE: "usage",
    CONFIGURATION: "configuration",
    BROKER_UNAVAILABLE: "broker_unavailable",
    TOPOLOGY_REFUSED: "topology_refused",
    HALTED: "halted",
    UNSETTLED: "unsettled",
    INTERNAL: "internal",
}
"""The value of ``error`` in JSON output for each code."""

MEANINGS: Final[Mapping[int, str]] = {
    OK: "success",
    FAILED: "a check found faults, or the command failed",
    USAGE: "the command line is wrong",
    CONFIGURATION: "the configuration has faults",
    BROKER_UNAVAILABLE: "no Kafka broker answered in time",
    TOPOLOGY_REFUSED: "the topics would lose records, or an output topic does not exist",
    HALTED: "a worker, scheduler or query stopped to protect data",
    UNSETTLED: "records still wait after --until-settled, or a dependency is away",
    INTERNAL: "internal error: a bug in kafka-redelivery",
}
"""What each code means, as ``redelivery --help`` lists it."""
