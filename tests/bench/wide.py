"""Wide: W1 and the release at several numbers of partitions, each beside a bare client over the same partitions."""

from collections.abc import Iterator
from dataclasses import replace

from tests.bench import release, w1
from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Result

NARROW = 6
"""The width that wider ones are compared with."""

FEW = 16
"""``topics.maxPartitions`` of the second run at a width above it."""

_WIDTHS = ((1, None), (NARROW, None), (64, None), (64, FEW), (300, None), (300, FEW))
_QUICK_WIDTHS = ((NARROW, None), (24, None), (24, FEW))
_N = 20_000
_SECONDS = 4.0


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield two results for each width, with the figures of W1 at the narrow one in their details.

    Wide ones are run again with few partitions of the tier and of the ready topic.
    """
    n, seconds = options.n or _N, min(options.seconds, _SECONDS)
    narrow: Result | None = None
    for partitions, most in _QUICK_WIDTHS if options.quick else _WIDTHS:
        given = options.with_changes(partitions=partitions, max_partitions=most, n=n, seconds=seconds, quick=True)
        (failed,) = w1.run(bed, given)
        if partitions == NARROW:
            narrow = failed
        figures = {} if narrow is None else {"narrow": (narrow.records_per_s, narrow.cpu_us_per_record)}
        yield replace(failed, workload="wide W1", details=failed.details | figures)
        (released,) = release.run(bed, given)
        yield replace(released, workload="wide release")
