"""What the commands that run on Spark share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import LogLevel
from topology.settings import Settings

SparkSettings = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="NAME=VALUE", help="A setting of Spark's own; may be given several times."),
]


def table_place(given: str) -> str:
    """A table as Spark has to be told of it: a path from here on is made whole, a URI stays as it is."""
    return given if "://" in given else str(Path(given).absolute())


def spark_settings(settings: Settings, given: list[str] | None, level: LogLevel) -> dict[str, str]:
    """What the configuration says of Spark, what the command line says above it, and how much Spark itself tells.

    It tells errors, unless everything is asked for.
    """
    section = {} if settings.pipeline is None else settings.pipeline.spark
    chosen = {"spark.log.level": "DEBUG" if level is LogLevel.DEBUG else "ERROR"}
    chosen |= {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in section.items()}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (equals and name.startswith("spark.")):
            raise typer.BadParameter(f"{text!r} is not of the form spark.NAME=VALUE", param_hint="--spark")
        chosen[name] = value
    return chosen
