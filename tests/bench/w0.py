"""W0: every record succeeds. The worker against the bare loop that does the same work."""

from collections.abc import Iterator, Mapping
from itertools import chain
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

_BATCH_HANDLERS = "PassesBatches", "LooksAtBatches"


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
    without_journal, without_spans, dependent = [], [], []
    batched: dict[str, list[dict[str, Any]]] = {name: [] for name in _BATCH_HANDLERS} if options.batch else {}
    for turn in range(options.repeat):
        bed.report_progress(f"worker, {turn + 1} of {options.repeat}")
        runs.append(_worker(bed, n, source, options))
        if options.journal:
            bed.report_progress(f"worker without a journal, {turn + 1} of {options.repeat}")
            without_journal.append(_worker(bed, n, source, options.with_changes(journal=False)))
        if options.otel:
            bed.report_progress(f"worker without spans, {turn + 1} of {options.repeat}")
            without_spans.append(_worker(bed, n, source, options.with_changes(otel=False)))
        if options.dependency:
            bed.report_progress(f"worker with a dependency, {turn + 1} of {options.repeat}")
            dependent.append(_worker(bed, n, source, options, **_dependent(source)))
        for handler, found in batched.items():
            bed.report_progress(f"{handler}, {turn + 1} of {options.repeat}")
            section = {"batch": {"records": options.batch}}
            found.append(measured_worker(bed, n, source, options, handler, {"n": n}, handler_section=section))
        bed.report_progress(f"bare loop, {turn + 1} of {options.repeat}")
        for size, rates in limits.items():
            rates.append(bed.act(**bare, source=source, n=n, batch=size)["records_per_s"])
    rate, limit = median(run["records_per_s"] for run in runs), median(limits[batch])
    name = bare["function"].removeprefix("bare:")
    yield Result(
        workload="W0",
        mode=options.mode,
        params={
            "n": n,
            **options.params(
                "value_bytes", "keys", "partitions", "slots", "output", "persist_counts", "journal", "otel", "repeat"
            ),
        },
        records_per_s=round(rate),
        baseline=Baseline(name=f"{name}, batches of {batch}", records_per_s=round(limit)),
        ratio=round(rate / limit, 3),
        lost=sum(run["lost"] for run in (*runs, *dependent, *chain(*batched.values()))),
        doubled=sum(run["doubled"] for run in (*runs, *dependent, *chain(*batched.values()))),
        rss_worker_mb=max(run["rss_mb"] for run in runs),
        cpu_us_per_record=round(median(run["cpu_us"] for run in runs), 1),
        seconds=round(n / rate, 3),
        details={
            "worker_cpu_us_per_record": round(median(run["worker_cpu_us"] for run in runs), 1),
            "runs": [round(run["records_per_s"]) for run in runs],
            "baseline_runs": [round(each) for each in limits[batch]],
            "baseline_by_batch": {str(size): round(each) for size, each in tried.items()},
            "ratio_at_same_batch": round(rate / median(limits[OWN_BATCH]), 3),
            **_cost_of("journal", runs, without_journal),
            **_cost_of("otel", runs, without_spans),
            **_cost_of_a_dependency(runs, dependent),
            **_gain_of_batches(runs, batched),
        },
    )


def _cost_of(option: str, runs: list[dict[str, Any]], without: list[dict[str, Any]]) -> dict[str, object]:
    """Compare each run with the one without an option that followed it; empty if there is none."""
    if not without:
        return {}
    pairs = list(zip(runs, without, strict=True))
    return {
        f"runs_without_{option}": [round(run["records_per_s"]) for run in without],
        f"{option}_ratio": round(median(own["records_per_s"] / other["records_per_s"] for own, other in pairs), 3),
        f"{option}_cpu_us": round(median(own["cpu_us"] - other["cpu_us"] for own, other in pairs), 2),
    }


def _cost_of_a_dependency(runs: list[dict[str, Any]], dependent: list[dict[str, Any]]) -> dict[str, object]:
    """Compare each run with the one with a dependency that followed it; empty if there is none."""
    if not dependent:
        return {}
    pairs = list(zip(dependent, runs, strict=True))
    return {
        "runs_with_a_dependency": [round(run["records_per_s"]) for run in dependent],
        "dependency_ratio": round(median(own["records_per_s"] / other["records_per_s"] for own, other in pairs), 3),
        "dependency_cpu_us": round(median(own["worker_cpu_us"] - other["worker_cpu_us"] for own, other in pairs), 2),
    }


def _gain_of_batches(runs: list[dict[str, Any]], batched: dict[str, list[dict[str, Any]]]) -> dict[str, object]:
    """Compare the runs of each batch handler with those of single records before them; empty if there are none."""
    found: dict[str, object] = {}
    for name, own in batched.items():
        ratios = [run["records_per_s"] / single["records_per_s"] for run, single in zip(own, runs, strict=True)]
        found[name] = {
            "runs": [round(run["records_per_s"]) for run in own],
            "ratio": round(median(ratios), 3),
            "worker_cpu_us_per_record": round(median(run["worker_cpu_us"] for run in own), 1),
        }
    return found


def _dependent(source: str) -> dict[str, object]:
    """Sections of the configuration in which the source declares a dependency."""
    return {"sources": [{"topic": source, "dependencies": ["bank"]}], "dependencies": {"bank": {}}}


def _worker(bed: Bed, n: int, source: str, options: Options, **sections: object) -> dict[str, Any]:
    output = bed.topic("output", options.partitions) if options.output else None
    if output is None:
        return measured_worker(bed, n, source, options, "Passes", {"n": n}, **sections)
    found = measured_worker(bed, n, source, options, "Emits", {"n": n, "output": output}, **sections)
    written = numbers_in(bed, output, n)
    return found | {"lost": max(found["lost"], written.lost), "doubled": max(found["doubled"], written.doubled)}


def measured_worker(
    bed: Bed,
    n: int,
    source: str,
    options: Options,
    handler: str,
    parameters: Mapping[str, object],
    **sections: Any,  # noqa: ANN401 - of the configuration
) -> dict[str, Any]:
    """Run a worker over all records of a source, and return what it did and used."""
    with bed.team(source, handler, options, parameters=parameters, **sections) as team:
        commits = Commits(bed.cluster, team.name, source)
        broker = bed.broker().cpu_s
        worker = team.start("worker", program=program(options), wait=False)
        team.until_reached()
        end_s = commits.wait()
        used, broker = usage(worker.pid), bed.broker().cpu_s - broker
        commits.close()
        team.stop()
        report = team.report()
    seconds = end_s - report["first_s"]
    own_s = used.cpu_s - report["first_cpu_s"]
    return {
        "records_per_s": n / seconds,
        "lost": report["lost"],
        "doubled": report["doubled"],
        "rss_mb": used.rss_peak_mb,
        "worker_cpu_us": own_s * 1e6 / n,
        "cpu_us": (own_s + broker) * 1e6 / n,
    }
