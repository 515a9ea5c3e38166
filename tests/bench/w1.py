"""W1: the chosen records fail at their first delivery and succeed at the second."""

import time
from collections.abc import Iterator

from tests.bench.bed import Bed
from tests.bench.handlers import lateness_ms
from tests.bench.limit import fastest_txcopy
from tests.bench.options import Options
from tests.bench.pair import Pair
from tests.bench.result import Baseline, Lateness, Result

DELAY_MS = 1000
HOPS = 2
"""Hops of a record that fails once: into the tier, and into the ready topic."""

_LATE_DUPLICATES_S = 1.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result whose ratio is hops/s divided by the transactional copy's records/s."""
    n = options.n or 100_000
    source = bed.fed(n, options)
    name, limit = fastest_txcopy(bed, n, source, options)
    bed.report_progress("worker and scheduler")
    parameters = {"n": n, "fail_ratio": options.fail_ratio, "delay_ms": DELAY_MS}
    policy = {"redeliveryPolicy": {"initialRedeliveryDelay": DELAY_MS, "redeliveryDelay": DELAY_MS}}
    with bed.team(source, "FailsOnce", options, parameters=parameters, policyEntry=policy) as team:
        pair = Pair(team, options)
        team.until_reached()
        spent = pair.spent()
        time.sleep(_LATE_DUPLICATES_S)
        team.stop()
        report, late = team.report(), lateness_ms(team.folder)
    seconds = report["last_s"] - report["first_s"]
    hops = HOPS * len(late)
    cpu = spent.cpu_us(n, report["first_cpu_s"])
    yield Result(
        workload="W1",
        mode=options.mode,
        params={"n": n, **options.params("fail_ratio", "value_bytes", "keys", "partitions", "max_partitions", "slots")},
        records_per_s=round(n / seconds, 1),
        baseline=Baseline(name=name, records_per_s=round(limit)),
        ratio=round(hops / seconds / limit, 3),
        lateness=Lateness.of(late),
        lost=report["lost"],
        doubled=report["doubled"],
        rss_worker_mb=spent.worker.rss_peak_mb,
        rss_scheduler_mb=spent.scheduler.rss_peak_mb,
        cpu_us_per_record=cpu["all"],
        seconds=round(seconds, 3),
        details={"hops_per_s": round(hops / seconds), "cpu_us": cpu},
    )
