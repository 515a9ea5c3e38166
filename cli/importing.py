"""`redelivery import`: from a broker's own configuration to ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.output import stderr
from topology.migration.connection_uri import is_connection_uri, read_connection_uri
from topology.migration.reading import read_broker_configuration
from topology.migration.result import Imported, MigrationError
from topology.migration.values import Values
from topology.migration.writing import written
from topology.migration.xml_tree import MOST_BYTES


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
    imported = _read(source, Values(dict(map(_property, properties or ())), os.environ))
    text = written(imported)
    console = stderr()
    for note in imported.notes:
        console.print(f"note: {note}")
    typer.echo(text, nl=False)


def _read(source: str, values: Values) -> Imported:
    if source == "-":
        return read_broker_configuration(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input", values)
    path = Path(source)
    if is_connection_uri(source) and not (source and os.path.exists(source)):  # noqa: PTH110 - false for long texts
        return read_connection_uri(source)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise MigrationError(source, "there is no such file, and it is no connection URI") from None
    except (OSError, ValueError) as error:
        raise MigrationError(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return read_broker_configuration(content, path.name, values)


def _property(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value
