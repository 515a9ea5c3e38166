"""W3: a backlog. All records fail once with a long delay, then come due at the rate they arrived."""

from collections.abc import Iterator

from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Baseline, Result
from tests.bench.steady import Flow, Steady, steady

RATE = 5000
WARM_UP = 2500
"""Half a second: the first write into each topic takes a process that long."""
SHORTEST_DELAY_MS = 30_000
FEW = 10_000
FEW_DELAY_MS = 5000
"""Long enough that few records, too, are all parked before the first of them is due."""


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result whose ratio is that of the 99th percentiles with many and with few pending records."""
    few_n = min(FEW, options.pending)
    bed.report_progress(f"{few_n:,} pending")
    few = _parked(bed, options, few_n, FEW_DELAY_MS)
    delay_ms = max(SHORTEST_DELAY_MS, 1000 * options.pending // RATE)
    if options.quick:
        delay_ms = max(FEW_DELAY_MS, 1000 * options.pending // RATE)
    bed.report_progress(f"{options.pending:,} pending for {delay_ms / 1000:g} s")
    many = _parked(bed, options, options.pending, delay_ms)
    yield Result(
        workload="W3",
        mode=options.mode,
        params={"rate": RATE, "delay_ms": delay_ms, **options.params("pending", "value_bytes", "keys", "partitions")},
        records_per_s=round(_drain(many, options.pending)),
        baseline=Baseline(
            name=f"{few_n} pending for {FEW_DELAY_MS} ms", records_per_s=round(_drain(few, few_n)), lateness=few.late
        ),
        ratio=round(many.late.p99 / few.late.p99, 3),
        lateness=many.late,
        lost=many.report["lost"] + few.report["lost"],
        doubled=many.report["doubled"] + few.report["doubled"],
        rss_worker_mb=many.spent.worker.rss_peak_mb,
        rss_scheduler_mb=many.spent.scheduler.rss_peak_mb,
        cpu_us_per_record=many.spent.cpu_us(options.pending, many.report["first_cpu_s"])["all"],
        seconds=round(many.report["last_s"] - many.report["first_s"], 3),
        details={
            "warm_up_max_ms": {"many": many.first.max, "few": few.first.max},
            "rss_peak_mb_few": {
                "worker": few.spent.worker.rss_peak_mb,
                "scheduler": few.spent.scheduler.rss_peak_mb,
            },
        },
    )


def _parked(bed: Bed, options: Options, n: int, delay_ms: int) -> Steady:
    policy = {"redeliveryPolicy": {"initialRedeliveryDelay": delay_ms, "redeliveryDelay": delay_ms}}
    flow = Flow(n, RATE, delay_ms, min(n // 2, WARM_UP))
    with steady(bed, options, flow, policy=policy) as (_, found):
        return found


def _drain(run: Steady, n: int) -> float:
    """Return the records per second from the first success to the last."""
    spent: float = run.report["last_s"] - run.report["first_again_s"]
    return n / spent
