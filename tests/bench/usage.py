"""CPU and memory of processes, as the kernel counts them."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far, and the maximum resident size in MiB."""

    cpu_s: float
    rss_peak_mb: float


def usage(pid: int) -> Usage:
    """Return the usage of one process without its children."""
    folder = Path("/proc") / str(pid)
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    peak = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmHWM"))
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), round(int(peak.split()[1]) / 1024, 1))


def family_cpu_s(*pids: int) -> float:
    """Return the CPU seconds so far of these processes and their living descendants."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat_file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            fields = stat_file.read_text().rpartition(")")[2].split()
            parents[int(stat_file.parent.name)] = int(fields[1])
            ticks[int(stat_file.parent.name)] = int(fields[11]) + int(fields[12])
    found = more = set(pids)
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found = found | more
    return sum(ticks.get(each, 0) for each in found) / os.sysconf("SC_CLK_TCK")
