"""W0: every record succeeds. The worker against the bare loop that does the same work."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from tests.bench.bed import Bed
from tests.bench.commits import Commits
from tests.bench.drained import numbers_in
from tests.bench.limit import OWN_BATCH, tune
from tests.bench.options import Options
from tests.bench.profiled import program
from tests.bench.result import Baseline, Result
from tests.bench.usage import usage


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield one result."""
    n = options.n or 100_000
    source = bed.fed(n, options)
    bare = {"function": "bare:consume"}
    if options.output:
        bare = {"function": f"bare:{'txcopy' if options.mode == 'transacted' else 'copy'}"}
        bare["target"] = bed.topic("bare-output", options.partitions)
    tried = tune(bed, n, source, options, **bare)
    batch = max(tried, key=lambda size: tried[size])
    limits = {size: [tried[size]] for size in {batch, OWN_BATCH}}
    runs = []
    without_journal = []
    for turn in range(options.repeat):
        bed.report_progress(f"worker, {turn + 1} of {options.repeat}")
        runs.append(_worker(bed, n, source, options))
        if options.journal:
            bed.report_progress(f"worker without a journal, {turn + 1} of {options.repeat}")
            without_journal.append(_worker(bed, n, source, options.with_changes(journal=False)))
        bed.report_progress(f"bare loop, {turn + 1} of {options.repeat}")
        for size, found in limits.items():
            found.append(bed.act(**bare, source=source, n=n, batch=size)["records_per_s"])
    rate, limit = median(run["records_per_s"] for run in runs), median(limits[batch])
    name = bare["function"].removeprefix("bare:")
    yield Result(
        workload="W0",
        mode=options.mode,
        params={
            "n": n,
            **options.params(
                "value_bytes", "keys", "partitions", "slots", "output", "persist_counts", "journal", "repeat"
            ),
        },
        records_per_s=round(rate),
        baseline=Baseline(name=f"{name}, batches of {batch}", records_per_s=round(limit)),
        ratio=round(rate / limit, 3),
        lost=sum(run["lost"] for run in runs),
        doubled=sum(run["doubled"] for run in runs),
        rss_worker_mb=max(run["rss_mb"] for run in runs),
        cpu_us_per_record=round(median(run["cpu_us"] for run in runs), 1),
        seconds=round(n / rate, 3),
        details={
            "worker_cpu_us_per_record": round(median(run["worker_cpu_us"] for run in runs), 1),
            "runs": [round(run["records_per_s"]) for run in runs],
            "baseline_runs": [round(each) for each in limits[batch]],
            "baseline_by_batch": {str(size): round(each) for size, each in tried.items()},
            "ratio_at_same_batch": round(rate / median(limits[OWN_BATCH]), 3),
            **_cost_of_the_journal(runs, without_journal),
        },
    )


def _cost_of_the_journal(runs: list[dict[str, Any]], without: list[dict[str, Any]]) -> dict[str, object]:
    """Compare each run with the one without journal that followed it; empty if there is none."""
    if not without:
        return {}
    pairs = list(zip(runs, without, strict=True))
    return {
        "runs_without_journal": [round(run["records_per_s"]) for run in without],
        "journal_ratio": round(median(own["records_per_s"] / other["records_per_s"] for own, other in pairs), 3),
        "journal_cpu_us": round(median(own["cpu_us"] - other["cpu_us"] for own, other in pairs), 2),
    }


def _worker(bed: Bed, n: int, source: str, options: Options) -> dict[str, Any]:
    output = bed.topic("output", options.partitions) if options.output else None
    handler, parameters = ("Passes", {"n": n}) if output is None else ("Emits", {"n": n, "output": output})
    with bed.team(source, handler, options, parameters=parameters) as team:
        commits = Commits(bed.cluster, team.name, source)
        broker = bed.broker().cpu_s
        worker = team.start("worker", program=program(options), wait=False)
        team.until_reached()
        end_s = commits.wait()
        used, broker = usage(worker.pid), bed.broker().cpu_s - broker
        commits.close()
        team.stop()
        report = team.report()
    lost, doubled = report["lost"], report["doubled"]
    if output is not None:
        written = numbers_in(bed, output, n)
        lost, doubled = max(lost, written.lost), max(doubled, written.doubled)
    seconds = end_s - report["first_s"]
    own_s = used.cpu_s - report["first_cpu_s"]
    return {
        "records_per_s": n / seconds,
        "lost": lost,
        "doubled": doubled,
        "rss_mb": used.rss_peak_mb,
        "worker_cpu_us": own_s * 1e6 / n,
        "cpu_us": (own_s + broker) * 1e6 / n,
    }
