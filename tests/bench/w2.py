"""W2: every delivery of every record fails: three deliveries, then the dead-letter topic."""

from collections.abc import Iterator

from tests.bench.bed import Bed
from tests.bench.limit import fastest_txcopy
from tests.bench.options import Options
from tests.bench.pair import Pair
from tests.bench.result import Baseline, Result

HOPS = 5
"""Hops of a record: tier and ready topic twice, and the dead-letter topic."""

_POLICY = {"maximumRedeliveries": 2, "initialRedeliveryDelay": 100, "redeliveryDelay": 200}
_WITHIN_S = 300.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result whose ratio is hops/s divided by the transactional copy's records/s."""
    n = options.n or 100_000
    source = bed.fed(n, options)
    name, limit = fastest_txcopy(bed, n, source, options)
    bed.report_progress("worker and scheduler")
    with bed.team(
        source, "AlwaysFails", options, parameters={"n": n}, policyEntry={"redeliveryPolicy": _POLICY}
    ) as team:
        tail = bed.start("tail:count", topic=team.dead_letters, partitions=options.partitions, n=n, within_s=_WITHIN_S)
        try:
            pair = Pair(team, options)
            found = tail.result()
        finally:
            tail.end()
        spent = pair.spent()
        team.stop()
        report = team.report()
    seconds = (found["last_s"] or report["first_s"] + _WITHIN_S) - report["first_s"]
    hops = HOPS * n
    cpu = spent.cpu_us(n, report["first_cpu_s"])
    yield Result(
        workload="W2",
        mode=options.mode,
        params={"n": n, **options.params("value_bytes", "keys", "partitions", "slots")},
        records_per_s=round(n / seconds, 1),
        baseline=Baseline(name=name, records_per_s=round(limit)),
        ratio=round(hops / seconds / limit, 3),
        lost=found["lost"],
        doubled=found["doubled"],
        rss_worker_mb=spent.worker.rss_peak_mb,
        rss_scheduler_mb=spent.scheduler.rss_peak_mb,
        header_dead_letter=found["header_bytes"],
        cpu_us_per_record=cpu["all"],
        seconds=round(seconds, 3),
        details={"hops_per_s": round(hops / seconds), "cpu_us": cpu},
    )
