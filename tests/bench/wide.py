"""Wide: W1, the release and a slow handler at several numbers of partitions."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tests.bench import release, w1
from tests.bench.bed import Bed
from tests.bench.handlers import lateness_ms
from tests.bench.options import Options
from tests.bench.pair import Pair
from tests.bench.result import Baseline, Lateness, Result

NARROW = 6
"""The width that wider ones are compared with."""

_WIDE = 300
_WIDTHS = ((1, None), (NARROW, None), (64, None), (64, 64), (_WIDE, None), (_WIDE, _WIDE))
"""Partitions of the source, and ``topics.maxPartitions``; ``None`` = the default of a new group."""

_QUICK_WIDTHS = ((NARROW, None), (24, None), (24, 24))
_N = 20_000
_SECONDS = 4.0

_SLEEP_S = 0.05
_SLOTS = 128
_SLOW_S = 8
"""How long the redeliveries of the slow handler take if all of its lanes are always busy."""


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield W1 and the release at each width, with the figures of W1 at the narrow one in their details.

    Wide ones are also run with a slow handler, and with tiers and ready topics as wide as the source. With
    ``--max-partitions`` only that number is compared with the narrow width.
    """
    n, seconds = options.n or _N, min(options.seconds, _SECONDS)
    widths: Iterable[tuple[int, int | None]] = _QUICK_WIDTHS if options.quick else _WIDTHS
    if options.max_partitions is not None:
        widths = ((NARROW, None), (_WIDE, options.max_partitions))
    figures: dict[str, object] = {}
    for partitions, most in widths:
        given = options.with_changes(partitions=partitions, max_partitions=most, n=n, seconds=seconds, quick=True)
        (failed,) = w1.run(bed, given)
        if partitions == NARROW:
            figures = {"narrow": (failed.records_per_s, failed.cpu_us_per_record)}
        more = figures | {"width": given.ready_partitions}
        yield replace(failed, workload="wide W1", details=failed.details | more)
        (released,) = release.run(bed, given)
        yield replace(released, workload="wide release", details=released.details | more)
        if partitions > NARROW:
            yield replace(_slow(bed, given), details=more)


def _slow(bed: Bed, options: Options) -> Result:
    """Let each record fail once with a handler whose redeliveries are limited by the partitions of the ready topic."""
    busy = min(_SLOTS, options.ready_partitions)
    limit = busy / _SLEEP_S
    n = round(limit * (_SLOW_S if (options.n or 0) >= _N else 1))
    source = bed.fed(n, options)
    bed.report_progress(f"a handler of {_SLEEP_S * 1000:g} ms")
    parameters = {"n": n, "fail_ratio": 1.0, "delay_ms": w1.DELAY_MS, "sleep_s": _SLEEP_S}
    how = {"parameters": parameters, "policyEntry": w1.POLICY, "handler_section": {"slots": _SLOTS}}
    with bed.team(source, "handlers_slow:SleepsAndFailsOnce", options, **how) as team:
        Pair(team, options)
        team.until_reached()
        time.sleep(w1.LATE_DUPLICATES_S)
        team.stop()
        report, late = team.report(), lateness_ms(team.folder)
    rate = n / (report["last_s"] - report["first_again_s"])
    return Result(
        workload="wide slow",
        mode=options.mode,
        params={"n": n, "slots": _SLOTS, "sleep_ms": _SLEEP_S * 1000} | options.params("partitions", "max_partitions"),
        records_per_s=round(rate, 1),
        baseline=Baseline(name=f"{busy} / {_SLEEP_S * 1000:g} ms", records_per_s=limit),
        ratio=round(rate / limit, 3),
        lateness=Lateness.of(late),
        lost=report["lost"],
        doubled=report["doubled"],
    )
