"""What the command's exit code tells. Part of its interface: never changed, only added to."""

from __future__ import annotations

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
"""A worker or scheduler stopped to protect data."""

INTERNAL: Final = 70
"""A fault of ours."""
