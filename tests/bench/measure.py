"""Runs workloads one after the other on one broker that has warmed up."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Result
from tests.bench.workloads import RUNS, Workload
from transport.embedded import EmbeddedKafka


def measure(plan: Sequence[tuple[Workload, Options]]) -> Iterator[Result]:
    """What each finds, as it comes; what happens now is told on stderr."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="redelivery-bench-") as folder,
        EmbeddedKafka() as kafka,
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
    ):
        task = progress.add_task("")
        name = ""
        bed = Bed(kafka, Path(folder), lambda what: progress.update(task, description=f"{name} {what}"))
        bed.warm_up(plan[0][1])
        for workload, options in plan:
            name = f"{workload}:"
            yield from RUNS[workload](bed, options)
