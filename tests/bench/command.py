"""The command line of ``./dev bench``."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode as Mode
from tests.bench.goals import goals
from tests.bench.measure import measure
from tests.bench.options import Options
from tests.bench.plan import everything
from tests.bench.report import write
from tests.bench.view import goals_table, results_table
from tests.bench.workloads import Workload

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def bench(
    workloads: Annotated[list[Workload] | None, typer.Argument(help="what to measure; everything by default")] = None,
    n: Annotated[int | None, typer.Option(min=10, help="records; each workload has a default")] = None,
    mode: Annotated[Mode, typer.Option(help="how results are acknowledged")] = Mode.TRANSACTED,
    value_bytes: Annotated[int, typer.Option(min=10, help="bytes of a value")] = 300,
    keys: Annotated[int, typer.Option(min=1, help="distinct keys")] = 10_000,
    partitions: Annotated[int, typer.Option(min=1, help="partitions of the source")] = 8,
    max_partitions: Annotated[int | None, typer.Option(min=1, help="of tiers and ready topics")] = None,
    slots: Annotated[int, typer.Option(min=1, help="slots of the worker")] = 1,
    batch: Annotated[
        int, typer.Option(min=0, help="W0: alternating with runs of a handler of batches of so many records")
    ] = 0,
    dependency: Annotated[
        bool,
        typer.Option("--dependency", help="W0: alternating with runs whose source declares a dependency, which is up"),
    ] = False,
    output: Annotated[bool, typer.Option("--output", help="W0: one output record each")] = False,
    persist_counts: Annotated[
        bool, typer.Option("--persist-counts", help="with handler.persistDeliveryCountBeforeDelivery")
    ] = False,
    journal: Annotated[
        bool, typer.Option("--journal", help="with the journal; W0: alternating with runs without it")
    ] = False,
    otel: Annotated[
        bool,
        typer.Option("--otel", help="W0, W1: with spans, exported and dropped; W0: alternating with runs without them"),
    ] = False,
    fail_ratio: Annotated[float, typer.Option(min=0.01, max=1, help="W1: share that fails once")] = 1.0,
    pending: Annotated[int, typer.Option(min=100, help="W3: records that wait")] = 50_000,
    rate: Annotated[int, typer.Option(min=1, help="release: records per second")] = 1000,
    seconds: Annotated[
        float, typer.Option(min=1, help="release: measured seconds of each kind; redrive: with a rate")
    ] = 10,
    repeat: Annotated[int, typer.Option(min=1, help="W0, redrive: runs of each kind; their medians are compared")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="print the results as JSON")] = False,
    avro: Annotated[bool, typer.Option("--avro", help="index, console: values are Avro instead of JSON text")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="small sizes, for a smoke test")] = False,
    write_docs: Annotated[
        bool, typer.Option("--write", help="renew the figures in docs/reference/measurements.md and its plots")
    ] = False,
    profile: Annotated[
        Path | None, typer.Option(help="folder for profiles; worker and scheduler run under cProfile, which slows them")
    ] = None,
) -> None:
    """Measure kafka-redelivery and a bare client in the same run, on an embedded Kafka."""
    options = Options(
        n=n,
        mode=mode.value,
        value_bytes=value_bytes,
        keys=keys,
        partitions=partitions,
        max_partitions=max_partitions,
        slots=slots,
        batch=batch,
        dependency=dependency,
        output=output,
        persist_counts=persist_counts,
        journal=journal,
        otel=otel,
        fail_ratio=fail_ratio,
        pending=pending,
        rate=rate,
        seconds=seconds,
        repeat=repeat,
        avro=avro,
        quick=quick,
        profile=profile,
    )
    plan = [(workload, options) for workload in workloads] if workloads else everything(options)
    results = list(measure(plan))
    if as_json:
        found: Any = [result.as_json() for result in results]
        sys.stdout.write(json.dumps(found[0] if len(found) == 1 else found, indent=2) + "\n")
    else:
        Console().print(results_table(results), goals_table(goals(results)))
    if write_docs:
        write(results, " ".join(["./dev bench", *sys.argv[1:]]), datetime.now(UTC).date())
    faults = [f"{result.workload}: {fault}" for result in results for fault in result.faults]
    for fault in faults:
        sys.stderr.write(f"broken promise: {fault}\n")
    raise typer.Exit(1 if faults else 0)


def main() -> None:
    """Run the command."""
    app(prog_name="./dev bench")
