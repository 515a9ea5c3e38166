"""What a process has used, as the kernel counts it."""

import os
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
