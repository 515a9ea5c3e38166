"""Release lateness of the scheduler and of the naive loop, in alternating turns, so that noise affects both."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.profiled import program
from tests.bench.result import Baseline, Lateness, Result
from tests.bench.usage import Usage, usage

DELAY_MS = 1000
TURNS = 2
WARM_UP_S = 2
"""Seconds at the beginning of each turn that are not measured, for both."""

_AFTERWARDS_S = 15.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result whose ratio is that of the 99th percentiles."""
    ours: list[dict[str, Any]] = []
    naive: dict[str, list[float]] = {"naive": [], "tuned naive": []}
    bed.report_progress("warming the broker up")
    _naive(bed, options, tuned=True)
    for turn in range(TURNS):
        bed.report_progress(f"scheduler, {turn + 1} of {TURNS}")
        ours.append(_scheduler(bed, options))
        for name in naive:
            bed.report_progress(f"{name} loop, {turn + 1} of {TURNS}")
            naive[name] += _naive(bed, options, tuned=name != "naive")
    late = Lateness.of([late for run in ours for late in run["late_ms"]])
    late = replace(late, early=sum(run["early"] for run in ours))
    limits = {name: Lateness.of(found) for name, found in naive.items()}
    limit = limits["naive"]
    used: list[Usage] = [run["used"] for run in ours]
    yield Result(
        workload="release",
        mode=options.mode,
        params={
            "turns": TURNS,
            "delay_ms": DELAY_MS,
            **options.params("rate", "seconds", "partitions", "max_partitions", "value_bytes"),
        },
        records_per_s=options.rate,
        baseline=Baseline(name="naive release loop", lateness=limit),
        ratio=round(late.p99 / limit.p99, 3),
        lateness=late,
        lost=sum(run["lost"] for run in ours),
        doubled=sum(run["doubled"] for run in ours),
        rss_scheduler_mb=max(each.rss_peak_mb for each in used),
        cpu_us_per_record=round(sum(run["cpu_us"] for run in ours) / TURNS, 1),
        seconds=options.seconds,
        details={
            "p50_ratio": round(late.p50 / limit.p50, 3),
            "tuned_naive_ms": limits["tuned naive"].as_json(),
            "turns_ms": [Lateness.of(run["late_ms"]).as_json() for run in ours],
        },
    )


def _count(options: Options) -> tuple[int, int]:
    """Return the records of a turn, and how many of them are the warm-up."""
    return math.ceil(options.rate * (options.seconds / TURNS + WARM_UP_S)), options.rate * WARM_UP_S


def _scheduler(bed: Bed, options: Options) -> dict[str, Any]:
    source = bed.topic("source", options.partitions)
    policy = {"redeliveryPolicy": {"initialRedeliveryDelay": DELAY_MS, "redeliveryDelay": DELAY_MS}}
    with bed.team(source, "Passes", options, policyEntry=policy) as team:
        scheduler = team.start("scheduler", program=program(options))
        before, broker = usage(scheduler.pid), bed.broker()
        tier = team.settings.naming().tier_topic(DELAY_MS)
        found = _park_and_watch(bed, options, tier, source, team.ready, options.ready_partitions)
        used = usage(scheduler.pid)
        cpu_s = used.cpu_s - before.cpu_s + bed.broker().cpu_s - broker.cpu_s
        team.stop()
    return found | {"used": used, "cpu_us": cpu_s * 1e6 / _count(options)[0]}


def _naive(bed: Bed, options: Options, *, tuned: bool) -> list[float]:
    n, _ = _count(options)
    tier, ready = bed.topic("tier", options.partitions), bed.topic("ready", options.partitions)
    within_s = n / options.rate + _AFTERWARDS_S
    loop = bed.start("naive:release", tier=tier, ready=ready, n=n, mode=options.mode, tuned=tuned, within_s=within_s)
    try:
        found = _park_and_watch(bed, options, tier, "source", ready, options.partitions)
        loop.result()
    finally:
        loop.end()
    late: list[float] = found["late_ms"]
    return late


def _park_and_watch(bed: Bed, options: Options, tier: str, source: str, ready: str, partitions: int) -> dict[str, Any]:
    n, warm_up = _count(options)
    within_s = n / options.rate + _AFTERWARDS_S
    reader = bed.start("arrivals:watch", topic=ready, partitions=partitions, n=n, warm_up=warm_up, within_s=within_s)
    try:
        bed.act(
            "parked:park",
            topic=tier,
            source=source,
            n=n,
            rate=options.rate,
            delay_ms=DELAY_MS,
            origins=options.partitions,
            partitions=partitions,
            value_bytes=options.value_bytes,
        )
        return reader.result()
    finally:
        reader.end()
