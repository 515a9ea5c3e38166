"""A consumer group whose records are handled by a streaming query, in the session that tests share."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.stream import run_stream
from tests.scenarios.running import Group
from topology.configuration import load_settings

HANDLER = "tests.pipeline.handlers:scripted"


def prepare(group: Group, **sections: dict[str, Any]) -> None:
    """Topics and configuration of a group with a query."""
    handler = {"callable": HANDLER} | sections.pop("handler", {})
    pipeline = {"checkpoint": "checkpoint"} | sections.pop("pipeline", {})
    group.prepare(handler=handler, pipeline=pipeline, **sections)  # type: ignore[arg-type]


def run(group: Group, spark: SparkSession) -> None:
    """Handle once what is there now."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    run_stream(settings, Path(group.folder), available_now=True, session=spark)
