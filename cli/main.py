"""The `redelivery` command and its subcommands, each of which imports what it needs when it runs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from kafka_redelivery.cli.commands import (
    config,
    dlq,
    dlq_edit,
    dlq_export,
    dlq_import,
    dlq_show,
    dlq_summary,
    dlq_watch,
    pipeline,
    topology,
)
from kafka_redelivery.cli.commands.broker import broker
from kafka_redelivery.cli.commands.console import console
from kafka_redelivery.cli.commands.explain import explain
from kafka_redelivery.cli.commands.find import find
from kafka_redelivery.cli.commands.import_letters import import_letters
from kafka_redelivery.cli.commands.importing import import_configuration
from kafka_redelivery.cli.commands.pauses import pause, resume
from kafka_redelivery.cli.commands.run import scheduler, worker
from kafka_redelivery.cli.commands.status import status
from kafka_redelivery.cli.commands.sweep import sweep
from kafka_redelivery.cli.errors import ReportingGroup
from kafka_redelivery.cli.output import print_text
from kafka_redelivery.topology import exit_codes

_EPILOG = "\n".join(["Exit codes", *(f"{code:>3} {text}" for code, text in exit_codes.MEANINGS.items())])

app = typer.Typer(
    name="redelivery",
    cls=ReportingGroup,
    help="ActiveMQ's redelivery policies and dead-letter strategies for Kafka consumers.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(topology.app, name="topology")
app.add_typer(config.app, name="config")
app.add_typer(pipeline.app, name="pipeline")
dlq.app.command()(dlq_show.show)
dlq.app.command()(dlq_edit.edit)
dlq.app.command()(dlq_export.export)
dlq.app.command(name="import")(dlq_import.import_letters)
dlq.app.command()(dlq_summary.summary)
dlq.app.command()(dlq_watch.watch)
app.add_typer(dlq.app, name="dlq")
app.command()(worker)
app.command()(scheduler)
app.command()(status)
app.command()(find)
app.command()(console)
app.command()(pause)
app.command()(resume)
app.command()(sweep)
app.command()(explain)
app.command(name="import")(import_configuration)
app.command(name="import-letters")(import_letters)
app.command()(broker)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"redelivery {version('kafka-redelivery')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="REDELIVERY_DEBUG", help="Print the traceback of an error.")
    ] = False,
) -> None:
    """Declare the options before the command; `ReportingGroup` reads them."""
