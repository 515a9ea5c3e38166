"""``python -m tests.simulation``: runs the simulation and writes ``docs/simulation.md`` with its plots."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.simulation import outage as returning
from tests.simulation import recording
from tests.simulation.calibration import table
from tests.simulation.experiments import experiments, run_all
from tests.simulation.page import Row, write
from tests.simulation.rebalances import rebalances

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def simulate(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="a small group; prints the results as JSON")] = False,  # noqa: FBT002 - as cli**
    results: Annotated[Path | None, typer.Option(help="file of results; runs that it has are not repeated")] = None,
) -> None:
    """Simulate a large group of workers and schedulers."""
    if context.invoked_subcommand is not None:
        return
    found: list[Row] = []
    if results is not None and results.exists():
        found = [Row(**row) for row in json.loads(results.read_text(encoding="utf-8"))]
    known = {(row.question, row.series, row.at) for row in found}
    for each, measured in run_all([each for each in experiments(quick=quick) if each[:3] not in known]):
        Console(stderr=True).print(f"{each.question}, {each.series}, {each.at:g}: {measured.cpu_s} s")
        found.append(Row(each.question, each.series, each.at, measured.as_json()))
        if results is not None:
            results.write_text(_text(found), encoding="utf-8")
    if quick:
        typer.echo(_text(found))
    else:
        write(found, list(table()), list(rebalances()))


def _text(rows: list[Row]) -> str:
    return json.dumps([asdict(row) for row in rows], indent=1) + "\n"


@app.command()
def record() -> None:
    """Record what real clients assign, for the test of the models of the assignors."""
    recording.record()


@app.command()
def outage() -> None:
    """Draw how twenty workers come back from an outage, for docs/outages.md."""
    typer.echo(returning.draw())


if __name__ == "__main__":
    app(prog_name="python -m tests.simulation")
