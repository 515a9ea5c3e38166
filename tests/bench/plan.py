"""The plan of ``./dev bench`` without a workload: everything, in moderate sizes."""

from tests.bench.options import Options
from tests.bench.workloads import Workload

Plan = list[tuple[Workload, Options]]


def everything(options: Options) -> Plan:
    """Return a plan of about twelve minutes, or of about two with ``quick``."""
    small = options.quick
    given = options.with_changes(seconds=4.0 if small else options.seconds, repeat=1 if small else options.repeat)
    passing = given.with_changes(n=options.n or (20_000 if small else 100_000))
    failing = given.with_changes(n=options.n or (5_000 if small else 50_000))
    auto, transacted = ({"mode": mode} for mode in ("auto", "transacted"))
    plan = [
        (Workload.W0, passing.with_changes(**auto)),
        (Workload.W0, passing.with_changes(**transacted)),
        (Workload.W0, passing.with_changes(**transacted, output=True)),
        (Workload.W1, failing.with_changes(**transacted, fail_ratio=1.0)),
        (Workload.W2, failing.with_changes(**transacted)),
        (Workload.RELEASE, given.with_changes(**transacted)),
        (Workload.W3, given.with_changes(**transacted, pending=10_000 if small else options.pending)),
        (Workload.TIERS, given.with_changes(**transacted)),
        (Workload.KEYS, given.with_changes(**transacted)),
        (Workload.HEADERS, given.with_changes(**transacted)),
        (Workload.REDRIVE, given.with_changes(**transacted)),
    ]
    if not small:
        plan += [
            (Workload.W1, failing.with_changes(**transacted, fail_ratio=0.1)),
            (Workload.RELEASE, given.with_changes(**auto)),
            (Workload.KILL, given.with_changes(**transacted)),
        ]
    return plan
