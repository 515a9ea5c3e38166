"""`redelivery import`: from a broker's own configuration to ours."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from cli.output import stderr


def import_configuration(
    source: Annotated[
        str, typer.Argument(help="activemq.xml, broker.xml, or a connection URI in quotes; - is standard input.")
    ],
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A value for ${NAME}; may be given several times."),
    ] = None,
) -> None:
    """Write the YAML that does what a broker's configuration does; what it leaves out is told on standard error."""
    from cli.import_source import read_source
    from topology.migration.values import Values
    from topology.migration.writing import written

    imported = read_source(source, Values(dict(map(_property, properties or ())), os.environ))
    text = written(imported)
    console = stderr()
    for note in imported.notes:
        console.print(f"note: {note}")
    typer.echo(text, nl=False)


def _property(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value
