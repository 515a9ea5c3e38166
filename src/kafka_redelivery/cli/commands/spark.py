"""Options of the commands that run on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_redelivery.cli.options import LogLevel
from kafka_redelivery.topology.config.settings import Settings

SparkSettings = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="NAME=VALUE", help="A setting of Spark, as in spark.driver.memory=4g; repeatable."),
]


def absolute_table(given: str) -> str:
    """Return the absolute path of a table, or its URI unchanged."""
    return given if "://" in given else str(Path(given).absolute())


def folder_uri(given: str) -> str:
    """Return the URI of a folder. A path without a scheme is local, whatever Spark's default file system is."""
    return given.rstrip("/") if "://" in given else f"file://{Path(given).absolute()}"  # Spark unescapes nothing


def spark_settings(settings: Settings, given: list[str] | None, level: LogLevel) -> dict[str, str]:
    """Return the settings of a Spark session: those of the command line override those of the configuration.

    Spark logs errors only, unless ``level`` is debug.
    """
    from kafka_redelivery.pipeline.spark.kafka_options import java_text

    section = {} if settings.pipeline is None else settings.pipeline.spark
    chosen = {"spark.log.level": "DEBUG" if level is LogLevel.DEBUG else "ERROR"}
    chosen |= {name: java_text(value) for name, value in section.items()}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (equals and name.startswith("spark.")):
            raise typer.BadParameter(f"{text!r} is not spark.NAME=VALUE", param_hint="--spark")
        chosen[name] = value
    return chosen
