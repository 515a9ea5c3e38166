"""Runs workloads one after the other on one warmed-up broker."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Result
from tests.bench.workloads import RUNS, Workload


def measure(plan: Sequence[tuple[Workload, Options]]) -> Iterator[Result]:
    """Yield the results as they come; show the current step on stderr."""
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
