"""A handler's own delays between tiers, against the same records with one fixed delay."""

import math
from collections import Counter
from collections.abc import Iterator
from statistics import fmean

from kafka_redelivery.topology.topics.tiers import SHORTEST_LADDER_TIER_MS
from tests.bench.bed import Bed, Team
from tests.bench.handlers import own_delay_ms
from tests.bench.options import Options
from tests.bench.result import Baseline, Result
from tests.bench.steady import Flow, steady
from tests.bench.tally import NUMBER_DIGITS

LONGEST_MS = 8000
FIXED_MS = 1000
RATE = 500
WARM_UP_S = 2
"""The first write into each topic takes a process half a second."""


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result whose ratio is that of the 99th percentiles."""
    n = options.n or (RATE * (4 if options.quick else 12))
    warm_up = min(n // 2, RATE * WARM_UP_S)
    bed.report_progress("fixed delays")
    fixed_policy = {"redeliveryPolicy": {"initialRedeliveryDelay": FIXED_MS, "redeliveryDelay": FIXED_MS}}
    with steady(bed, options, Flow(n, RATE, FIXED_MS, warm_up), policy=fixed_policy) as (_, fixed):
        pass
    bed.report_progress("delays of the handler's own")
    policy = {**fixed_policy, "maximumHandlerDelay": f"{LONGEST_MS}ms"}
    parameters = {"longest_ms": LONGEST_MS}
    flow = Flow(n, RATE, LONGEST_MS, warm_up)
    with steady(bed, options, flow, handler="AsksForDelays", parameters=parameters, policy=policy) as (team, own):
        hops = _hops(bed, team)
    excess = [hops[number] - allowed_hops(own_delay_ms(number, LONGEST_MS)) for number in range(n)]
    yield Result(
        workload="tiers",
        mode=options.mode,
        params={"n": n, "rate": RATE, "longest_ms": LONGEST_MS, **options.params("partitions", "value_bytes")},
        baseline=Baseline(name=f"one fixed delay of {FIXED_MS} ms", lateness=fixed.late),
        ratio=round(own.late.p99 / fixed.late.p99, 3),
        lateness=own.late,
        lost=own.report["lost"] + fixed.report["lost"],
        doubled=own.report["doubled"] + fixed.report["doubled"],
        rss_worker_mb=own.spent.worker.rss_peak_mb,
        rss_scheduler_mb=own.spent.scheduler.rss_peak_mb,
        cpu_us_per_record=own.spent.cpu_us(n, own.report["first_cpu_s"])["all"],
        details={
            "warm_up_max_ms": {"own": own.first.max, "fixed": fixed.first.max},
            "hops_mean": round(fmean(hops.values()), 3),
            "hops_max": max(hops.values()),
            "hops_over_limit": sum(1 for each in excess if each > 0),
        },
    )


def allowed_hops(delay_ms: int) -> int:
    """Return 2 + log2(delay / smallest tier), rounded up, and 2 for delays below the smallest tier."""
    return 2 + max(0, math.ceil(math.log2(delay_ms / SHORTEST_LADDER_TIER_MS)))


def _hops(bed: Bed, team: Team) -> Counter[int]:
    """Return for each record how often it was written into tiers and the ready topic."""
    naming = team.settings.naming()
    cluster = bed.cluster
    tiers = [*naming.tiers_among(cluster.topics()), naming.mixed_topic()]
    return Counter(int((record.value or b"")[:NUMBER_DIGITS]) for record in cluster.read(*tiers, team.ready))
