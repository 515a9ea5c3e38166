"""Waiting handlers in 64 slots: by key, by partition and unordered, in threads and in asyncio."""

from collections.abc import Iterator

from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.profiled import program
from tests.bench.result import Baseline, Result
from tests.bench.usage import usage

SLEEP_S = 0.02
SLOTS = 64
VARIANTS = (
    ("key", "threads"),
    ("key", "asyncio"),
    ("unordered", "threads"),
    ("unordered", "asyncio"),
    ("partition", "threads"),
)
_HANDLERS = {"threads": "handlers_slow:Sleeps", "asyncio": "handlers_slow:SleepsAsync"}
_SHARE_BY_PARTITION = 8


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each variant; ``partition`` is informative only, as it uses at most one slot per partition."""
    n = options.n or (8_000 if options.quick else 16_000)
    variants = VARIANTS[:2] if options.quick else VARIANTS
    for ordering, how in variants:
        yield _variant(bed, options, n // _SHARE_BY_PARTITION if ordering == "partition" else n, ordering, how)


def _variant(bed: Bed, options: Options, n: int, ordering: str, how: str) -> Result:
    source = bed.fed(n, options)
    bed.report_progress(f"{SLOTS} slots, {ordering}, {how}")
    busy = min(SLOTS, options.partitions) if ordering == "partition" else SLOTS
    limit = busy / SLEEP_S
    parameters = {"n": n, "sleep_s": SLEEP_S}
    section = {"slots": SLOTS, "ordering": ordering}
    with bed.team(source, _HANDLERS[how], options, parameters=parameters, handler_section=section) as team:
        worker = team.start("worker", program=program(options), wait=False)
        team.until_reached()
        used = usage(worker.pid)
        team.stop()
        report = team.report()
    seconds = report["last_s"] - report["first_s"]
    return Result(
        workload="keys",
        mode=options.mode,
        params={
            "n": n,
            "slots": SLOTS,
            "sleep_ms": SLEEP_S * 1000,
            "ordering": ordering,
            "handler": how,
            **options.params("keys", "partitions", "value_bytes"),
        },
        records_per_s=round(n / seconds, 1),
        baseline=Baseline(name=f"{busy} / {SLEEP_S * 1000:g} ms", records_per_s=limit),
        ratio=round(n / seconds / limit, 3),
        lost=report["lost"],
        doubled=report["doubled"],
        rss_worker_mb=used.rss_peak_mb,
        cpu_us_per_record=round((used.cpu_s - report["first_cpu_s"]) * 1e6 / n, 1),
        seconds=round(seconds, 3),
    )
