"""What a process has used, as the kernel counts it."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far, and the largest resident size in MiB."""

    cpu_s: float
    rss_peak_mb: float


def usage(pid: int) -> Usage:
    """Of one process, without its children."""
    place = Path("/proc") / str(pid)
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    peak = next(line for line in (place / "status").read_text().splitlines() if line.startswith("VmHWM"))
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), round(int(peak.split()[1]) / 1024, 1))


def family_cpu_s(*pids: int) -> float:
    """CPU seconds so far of these processes and of all that descend from them and live."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = place.read_text().rpartition(")")[2].split()
            parents[int(place.parent.name)] = int(fields[1])
            ticks[int(place.parent.name)] = int(fields[11]) + int(fields[12])
    found = more = set(pids)
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found = found | more
    return sum(ticks.get(each, 0) for each in found) / os.sysconf("SC_CLK_TCK")
