"""How the death of a worker or scheduler (SIGKILL inside a transaction) delays the records of other processes.

Two processes of the role share the work. One dies with an open transaction. With a stable instance name it is restarted
immediately; without one its partitions wait for the session time-out. The other process handles the others' records.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.bed import Bed, Team
from tests.bench.drained import Counted, numbers_in
from tests.bench.events import Event, read_events
from tests.bench.options import Options
from tests.bench.result import Lateness, Result
from tests.crash.program import PROGRAM
from tests.scenarios.cluster import Partition
from tests.scenarios.running import SIGKILLED, Role

DELAY_MS = 1000
RATE = 200
FED_S = 15
ASSIGNMENT = "range"
SCAN_S = 10.0
"""Interval at which the broker looks for expired transactions."""

RESTART_S = 15.0
"""Maximum time of a restart until all partitions are handled again."""

TAKE_OVER_S = 5.0
"""Maximum time in which the others take over once the session has expired."""

_WRITES_BEFORE = 60
"""The process dies in this write, some seconds after the first record, while others are in progress."""

_LOOK_S = 0.25
_WHOSE = ("others", "others through the dead", "of the dead")
"""Owners of the records; the second kind is redelivered through a ready partition of the killed process."""


@dataclass(frozen=True, slots=True)
class _Case:
    role: Role
    stable: bool

    @property
    def name(self) -> str:
        return f"{self.role} {'with' if self.stable else 'without'} a stable name"


CASES = (
    _Case("worker", stable=True),
    _Case("scheduler", stable=True),
    _Case("worker", stable=False),
    _Case("scheduler", stable=False),
)


@dataclass(frozen=True, slots=True)
class _Outcome:
    events: list[Event]
    dead_had: set[int]
    """Partitions of the source or of the tier; a record has the same partition in every topic of its group."""

    dead_had_ready: set[int]
    """A worker's partitions of the ready topic, which also carry records of other source partitions."""

    killed_s: float
    written: Counted

    def whose(self, event: Event) -> str:
        """Return the owner of an event's record, one of :data:`_WHOSE`."""
        if event.partition in self.dead_had:
            return "of the dead"
        return "others through the dead" if event.partition in self.dead_had_ready else "others"


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each case with the lateness of the records of other processes."""
    for case in CASES[:2] if options.quick else CASES:
        bed.report_progress(case.name)
        yield _result(options, case, _killed(bed, options, case))


def _killed(bed: Bed, options: Options, case: _Case) -> _Outcome:
    n = RATE * FED_S
    output = bed.topic("output", options.partitions)
    policy = {"redeliveryPolicy": {"initialRedeliveryDelay": DELAY_MS, "redeliveryDelay": DELAY_MS}}
    kafka = {
        # With range, each has the same partitions of source and ready topic; sticky may give all of one topic to one.
        "consumer.partition.assignment.strategy": ASSIGNMENT,
        "consumer.session.timeout.ms": round(options.session_s * 1000),
        "producer.transaction.timeout.ms": round(options.transaction_s * 1000),
    }
    source = bed.topic("source", options.partitions)
    parameters = {"output": output}
    with bed.team(source, "events:LogsEvents", options, parameters=parameters, policyEntry=policy, kafka=kafka) as team:
        team.start("scheduler" if case.role == "worker" else "worker", "other")
        had = _start_two(team, case)
        dying = team.processes[1]
        feeder = bed.start(
            "feed:feed_actor", topic=source, n=n, rate=RATE, value_bytes=options.value_bytes, keys=options.keys
        )
        try:
            code = dying.wait(FED_S + 60)
            killed_s = time.time()
            if code != SIGKILLED:
                raise RuntimeError(f"the process ended with {code} instead of being killed:\n{dying.log[-3000:]}")
            team.processes.remove(dying)
            if case.stable:
                team.start(case.role, "dying", wait=False)
            _await_all(team, n, within_s=2 * (options.session_s + options.transaction_s) + 60)
            feeder.result()
        finally:
            feeder.end()
        time.sleep(1)
        team.stop()
        first = {number for topic, number in had if topic != team.ready}
        ready = {number for topic, number in had if topic == team.ready}
        return _Outcome(read_events(team.folder), first, ready, killed_s, numbers_in(bed, output, n))


def _start_two(team: Team, case: _Case) -> set[Partition]:
    """Start both processes; return the partitions of the one that will die, once both have some."""
    group = team.name if case.role == "worker" else f"{team.name}.scheduler"
    trap = (f"flush:after:{_WRITES_BEFORE}:die", str(team.folder / "killed"))
    team.start(case.role, "dying" if case.stable else None, program=(*PROGRAM, *trap))
    cluster = team.bed.cluster
    (dying,) = cluster.members(group)
    team.start(case.role, "living" if case.stable else None, wait=False)
    everything: set[Partition] = set().union(*cluster.members(group).values())

    def shared() -> bool:
        members = cluster.members(group)
        return len(members) == 2 and all(members.values()) and set().union(*members.values()) == everything

    team.until(shared, "both have partitions", within_s=60)
    return cluster.members(group)[dying]


def _await_all(team: Team, n: int, *, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while len({event.number for event in read_events(team.folder) if event.succeeded}) < n:
        if time.monotonic() > deadline:
            return  # a missing record is counted as lost
        time.sleep(_LOOK_S)


def _result(options: Options, case: _Case, outcome: _Outcome) -> Result:
    failed: dict[int, float] = {}
    late: dict[str, list[float]] = {whose: [] for whose in _WHOSE}
    waited = dict.fromkeys(_WHOSE, 0.0)
    for event in outcome.events:
        whose = outcome.whose(event)
        if not event.succeeded:
            if event.number not in failed:
                waited[whose] = max(waited[whose], event.at_s - event.written_s)
            failed[event.number] = event.at_s
        elif event.number in failed:
            late[whose].append((event.at_s - failed.pop(event.number)) * 1000 - DELAY_MS)
    bound_s = max(options.session_s, options.transaction_s + SCAN_S) + TAKE_OVER_S
    return Result(
        workload="kill",
        mode=options.mode,
        params={
            "who": case.role,
            "stable_name": case.stable,
            "rate": RATE,
            "delay_ms": DELAY_MS,
            "assignment": ASSIGNMENT,
            **options.params("session_s", "transaction_s", "partitions"),
        },
        lateness=Lateness.of([each for whose in _WHOSE[:2] for each in late[whose]]),
        lost=outcome.written.lost,
        doubled=outcome.written.doubled,
        details={
            "lateness_ms": {whose: Lateness.of(found).as_json() for whose, found in late.items() if found},
            "longest_wait_s_for_a_first_delivery": {whose: round(waited[whose], 3) for whose in _WHOSE},
            "visible_again_s": _visible_again_s(outcome),
            "bound_s": RESTART_S if case.stable else bound_s,
        },
    )


def _visible_again_s(outcome: _Outcome) -> dict[str, float]:
    """Return the seconds from the kill until every redelivery that was due by then has come."""
    found = dict.fromkeys(_WHOSE, 0.0)
    failed: dict[int, float] = {}
    for event in outcome.events:
        if not event.succeeded:
            failed[event.number] = event.at_s
        elif failed.get(event.number, event.at_s) < outcome.killed_s:
            whose = outcome.whose(event)
            found[whose] = max(found[whose], round(event.at_s - outcome.killed_s, 3))
    return found
