"""`redelivery import`: converts the configuration of an ActiveMQ broker."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kafka_redelivery.cli.options import named_values
from kafka_redelivery.cli.output import print_text, stderr


def import_configuration(
    source: Annotated[
        str, typer.Argument(help="activemq.xml, broker.xml, or a connection URI in quotes; - for standard input.")
    ],
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="The value of the placeholder ${NAME}; repeatable."),
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment", help="Replace placeholders from the environment variables, too.")
    ] = False,
) -> None:
    """Print the YAML equivalent of a broker's configuration; notes on standard error name what it leaves out."""
    from kafka_redelivery.cli.commands.import_source import read_source
    from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
    from kafka_redelivery.topology.migration.yaml_file import to_yaml

    values = PlaceholderValues(named_values(properties, "--property"), os.environ if environment else {})
    imported = read_source(source, values)
    text = to_yaml(imported)
    console = stderr()
    for note in imported.notes:
        console.print(f"note: {note}")
    print_text(text, newline=False)
