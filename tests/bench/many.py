"""Many: 50 sources of 20 partitions, three workers and two schedulers, idle and with failures, alone and among others.

Measured are CPU and memory of each process and of the broker, the requests that the processes send, the time to start,
and the time of a rebalance.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.bench.bed import Bed, Team
from tests.bench.counted import counts_in
from tests.bench.drained import numbers_in
from tests.bench.events import Event, read_events
from tests.bench.options import Options
from tests.bench.result import Lateness, Result
from tests.bench.usage import usage
from tests.scenarios.running import Process, Role

SOURCES, PARTITIONS, WORKERS, SCHEDULERS = 50, 20, 3, 2
FOREIGN = 2_000
"""Topics of one partition that the group has nothing to do with, in the second run."""

RATE = 500
"""Failures per second of the whole group."""

DELAY_MS = 1000
_QUIET_S = 5.0
_LOOK_S = 0.05
"""Between two looks at a group or at the events: they take CPU from what is measured."""

_CREATED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class _Size:
    sources: int = SOURCES
    partitions: int = PARTITIONS
    foreign: int = FOREIGN
    rate: int = RATE


_SMALL = _Size(3, 4, 30, 50)


@dataclass(slots=True)
class _Group:
    """The running processes of a group."""

    bed: Bed
    team: Team
    files: dict[str, Path] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)

    def start(self, role: Role, number: int, *, stable: bool = True) -> None:
        """Start a process that counts its requests; without a stable name it leaves its group when it stops."""
        name = f"{role}-{number}"
        file = self.files[name] = self.team.folder / f"{name}.counts"
        program = ("-m", "tests.bench.counted", str(file))
        instance = name if stable else None
        self.processes[name] = self.team.start(role, instance, program=program, wait=False)

    def until_owned(self, group: str, members: int, partitions: int) -> float:
        """Wait until so many members own all partitions, and return the seconds that it took."""
        began_s = time.monotonic()

        def owned() -> bool:
            time.sleep(_LOOK_S)
            found = self.bed.cluster.members(group)
            return len(found) == members and sum(map(len, found.values())) == partitions

        self.team.until(owned, f"{members} members own {partitions} partitions", within_s=120)
        return round(time.monotonic() - began_s, 2)

    def spend(self, seconds: float) -> dict[str, Any]:
        """Return what all processes use in some seconds, per second."""
        counts = {name: counts_in(file) for name, file in self.files.items()}
        cpu = {name: usage(each.pid).cpu_s for name, each in self.processes.items()}
        broker_s, began_s = self.bed.broker().cpu_s, time.monotonic()
        time.sleep(seconds)
        spent_s = time.monotonic() - began_s
        after = {name: counts_in(file) for name, file in self.files.items()}
        found: dict[str, Any] = {"broker_cpu": round((self.bed.broker().cpu_s - broker_s) / spent_s, 3)}
        for role in ("worker", "scheduler"):
            names = [name for name in self.files if name.startswith(role)]
            requests = sum(((after[name] - counts[name]) for name in names), Counter[str]())
            size = requests.pop("bytes", 0)
            requests.pop("clients", 0)
            now = {name: usage(self.processes[name].pid) for name in names}
            found[role] = {
                "cpu": round(sum(now[name].cpu_s - cpu[name] for name in names) / spent_s / len(names), 3),
                "rss_mb": max(each.rss_peak_mb for each in now.values()),
                "clients": round(sum(after[name]["clients"] for name in names) / len(names), 1),
                "requests": {name: round(n / spent_s / len(names), 2) for name, n in requests.most_common()},
                "kb": round(size / spent_s / len(names) / 1000, 1),
            }
        return found


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result without and one with many topics of others in the cluster."""
    size = _SMALL if options.quick else _Size()
    alone: dict[str, Any] = {}
    for others in (0, size.foreign):
        for first in range(0, others, _CREATED_AT_ONCE):
            bed.report_progress(f"creating {others:,} topics of others")
            names = range(first, min(others, first + _CREATED_AT_ONCE))
            bed.cluster.create(*(f"other-{number:05}" for number in names))
        found = _result(bed, options, size, others)
        alone = alone or found.details["idle"]
        yield replace(found, details=found.details | {"alone": alone}) if others else found


def _result(bed: Bed, options: Options, size: _Size, others: int) -> Result:
    bed.report_progress(f"creating {size.sources} sources")
    topics = [bed.topic("many", size.partitions) for _ in range(size.sources)]
    output, n = bed.topic("output", size.partitions), int(size.rate * options.seconds)
    sources: Any = [{"topic": topic} for topic in topics]
    policy = {"redeliveryPolicy": {"initialRedeliveryDelay": DELAY_MS, "redeliveryDelay": DELAY_MS}}
    sections = {"sources": sources, "policyEntry": policy, "metrics": {"port": 0}}
    with bed.team(topics[0], "events:LogsEvents", options, parameters={"output": output}, **sections) as team:
        details = _observe(_Group(bed, team), options, size, topics, n)
        team.stop()
        late = [(again - failed) * 1000 - DELAY_MS for failed, again in _both_times(read_events(team.folder))]
        written = numbers_in(bed, output, n)
    return Result(
        workload="many",
        mode=options.mode,
        params={
            "sources": size.sources,
            "partitions": size.partitions,
            "foreign_topics": others,
            "rate": size.rate,
            "workers": WORKERS,
            "schedulers": SCHEDULERS,
        },
        lateness=Lateness.of(late),
        lost=written.lost,
        doubled=written.doubled,
        rss_worker_mb=details["failing"]["worker"]["rss_mb"],
        rss_scheduler_mb=details["failing"]["scheduler"]["rss_mb"],
        seconds=options.seconds,
        details=details,
    )


def _observe(group: _Group, options: Options, size: _Size, topics: Sequence[str], n: int) -> dict[str, Any]:
    """Start the processes, let one join and leave, and return what was measured meanwhile."""
    bed, team, found = group.bed, group.team, dict[str, Any]()
    kept = options.with_changes(partitions=size.partitions).ready_partitions
    partitions = size.sources * (size.partitions + kept)
    bed.report_progress("start")
    began_s = time.monotonic()
    for number in range(SCHEDULERS):
        group.start("scheduler", number)
    for number in range(WORKERS - 1):
        group.start("worker", number)
    group.until_owned(team.name, WORKERS - 1, partitions)
    found["start_s"] = round(time.monotonic() - began_s, 1)
    bed.report_progress("a worker joins")
    group.start("worker", WORKERS - 1, stable=False)
    found["join_s"] = group.until_owned(team.name, WORKERS, partitions)
    group.until_owned(f"{team.name}.scheduler", SCHEDULERS, kept)
    time.sleep(_QUIET_S)
    bed.report_progress("idle")
    found["idle"] = group.spend(options.seconds)
    bed.report_progress(f"{size.rate} failures a second")
    feeder = bed.start(
        "feed:feed_actor", topic=topics, n=n, rate=size.rate, value_bytes=options.value_bytes, keys=options.keys
    )
    try:
        found["failing"] = group.spend(options.seconds)
        team.until(lambda: _succeeded(team.folder) >= n, "all have succeeded")
    finally:
        feeder.end()
    bed.report_progress("a worker leaves")
    gone = group.processes[f"worker-{WORKERS - 1}"]
    team.processes.remove(gone)
    gone.terminate()
    found["leave_s"] = group.until_owned(team.name, WORKERS - 1, partitions)
    gone.wait(40)
    return found


def _succeeded(folder: Path) -> int:
    time.sleep(_LOOK_S)
    return sum(event.succeeded for event in read_events(folder))


def _both_times(events: Iterable[Event]) -> Iterator[tuple[float, float]]:
    """Yield when each record failed, and when it was handled again."""
    failed: dict[int, float] = {}
    for event in events:
        if not event.succeeded:
            failed[event.number] = event.at_s
        elif event.number in failed:
            yield failed.pop(event.number), event.at_s
