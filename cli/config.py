"""`redelivery config`: look at the configuration without a cluster."""

from __future__ import annotations

import typer
import yaml

from cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from cli.output import print_json, stdout
from cli.topology_view import print_faults
from topology.redaction import shown
from topology.settings import json_schema

app = typer.Typer(no_args_is_help=True, help="Look at the configuration; needs no cluster.")


@app.command()
def check(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Report every fault of the configuration, each with its place and mend, and what may not be meant so."""
    settings = load(config, overrides)
    warnings = [warning for found in settings.resolutions().values() for warning in found.warnings]
    if as_json:
        print_json({"ok": True, "faults": [], "warnings": [warning.document() for warning in warnings]})
    else:
        print_faults(stdout(), warnings)
        typer.echo(f"{config}: no faults")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the file, for editors."""
    print_json(json_schema())


@app.command()
def show(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Print every setting as it counts: file, environment, flags and defaults together, without secrets."""
    document = shown(load(config, overrides))
    if as_json:
        print_json(document)
    else:
        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
