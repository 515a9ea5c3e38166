"""Wide: W1 and the release at several numbers of partitions, each beside a bare client over the same partitions."""

from collections.abc import Iterator
from dataclasses import replace

from tests.bench import release, w1
from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Result

NARROW = 6
"""The width that wider ones are compared with."""

_WIDTHS = (1, NARROW, 64, 300)
_QUICK_WIDTHS = (NARROW, 24)
_N = 20_000
_SECONDS = 4.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield two results for each width, with the figures of W1 at the narrow one in their details."""
    n, seconds = options.n or _N, min(options.seconds, _SECONDS)
    narrow: Result | None = None
    for partitions in _QUICK_WIDTHS if options.quick else _WIDTHS:
        given = options.with_changes(partitions=partitions, n=n, seconds=seconds, quick=True)
        (failed,) = w1.run(bed, given)
        if partitions == NARROW:
            narrow = failed
        figures = {} if narrow is None else {"narrow": (narrow.records_per_s, narrow.cpu_us_per_record)}
        yield replace(failed, workload="wide W1", details=failed.details | figures)
        (released,) = release.run(bed, given)
        yield replace(released, workload="wide release")
