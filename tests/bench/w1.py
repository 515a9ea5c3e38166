"""W1: the chosen records fail at their first delivery and succeed at the second."""

import time
from collections.abc import Iterator

from tests.bench.bed import Bed
from tests.bench.handlers import lateness_ms
from tests.bench.limit import OWN_BATCH, fastest_txcopy
from tests.bench.options import Options
from tests.bench.pair import Pair
from tests.bench.result import Baseline, Lateness, Result

DELAY_MS = 1000
HOPS = 2
"""Hops of a record that fails once: into the tier, and into the ready topic."""

POLICY = {"redeliveryPolicy": {"initialRedeliveryDelay": DELAY_MS, "redeliveryDelay": DELAY_MS}}
LATE_DUPLICATES_S = 1.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result whose ratio is hops/s divided by the transactional copy's records/s."""
    n = options.n or 100_000
    source = bed.fed(n, options)
    name, limit = fastest_txcopy(bed, n, source, options)
    bare = {"floor": _floor(bed, n, source, options)} if options.fail_ratio == 1.0 else {}
    bed.report_progress("worker and scheduler")
    parameters = {"n": n, "fail_ratio": options.fail_ratio, "delay_ms": DELAY_MS}
    with bed.team(source, "FailsOnce", options, parameters=parameters, policyEntry=POLICY) as team:
        pair = Pair(team, options)
        team.until_reached()
        spent = pair.spent()
        time.sleep(LATE_DUPLICATES_S)
        team.stop()
        report, late = team.report(), lateness_ms(team.folder)
    seconds = report["last_s"] - report["first_s"]
    hops = HOPS * len(late)
    cpu = spent.cpu_us(n, report["first_cpu_s"])
    yield Result(
        workload="W1",
        mode=options.mode,
        params={
            "n": n,
            **options.params("fail_ratio", "value_bytes", "keys", "partitions", "max_partitions", "slots", "otel"),
        },
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
        details={"hops_per_s": round(hops / seconds), "cpu_us": cpu, **bare},
    )


def _floor(bed: Bed, n: int, source: str, options: Options) -> dict[str, float]:
    """Make the same reads and transactional writes, with headers, in two bare processes.

    Returns:
        records/s, and CPU microseconds per record of worker, scheduler and broker.
    """
    bed.report_progress("the floor: reads and writes alone")
    tier, ready = (bed.topic(f"floor-{what}", options.partitions) for what in ("tier", "ready"))
    broker_s = bed.broker().cpu_s
    scheduler = bed.start("bare:forward", source=tier, target=ready, n=n, batch=OWN_BATCH)
    try:
        worker = bed.act("bare:fail_once", source=source, tier=tier, ready=ready, n=n, batch=OWN_BATCH)
        broker_us = (bed.broker().cpu_s - broker_s) * 1e6 / n
        cpu = {"worker": worker["cpu_us"], "scheduler": scheduler.result()["cpu_us"], "broker": broker_us}
    finally:
        scheduler.end()
    bed.cluster.delete(tier, ready)
    return {"records_per_s": round(worker["records_per_s"]), **{part: round(us, 1) for part, us in cpu.items()}}
