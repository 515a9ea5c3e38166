"""A consumer group whose records are handled by a streaming query, in the session that tests share."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.stopping import Stop
from pipeline.stream import run_stream
from tests.scenarios.running import COMMAND, Group, Process
from topology.configuration import load_settings

HANDLER = "tests.pipeline.handlers:scripted"


def prepare(group: Group, **sections: Any) -> None:  # noqa: ANN401 - as in a file
    """Topics and configuration of a group with a query."""
    handler = {"callable": HANDLER} | sections.pop("handler", {})
    pipeline = {"checkpoint": "checkpoint"} | sections.pop("pipeline", {})
    group.prepare(handler=handler, pipeline=pipeline, **sections)


def run(group: Group, spark: SparkSession) -> None:
    """Handle once what is there now."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    run_stream(settings, Path(group.folder), available_now=True, session=spark)


@contextmanager
def running(group: Group, spark: SparkSession) -> Iterator[None]:
    """Handle what comes while the block runs."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    stop = Stop(timedelta(seconds=25))
    failures: list[BaseException] = []

    def go_on() -> None:
        try:
            run_stream(settings, Path(group.folder), session=spark, stop=stop)
        except BaseException as error:  # noqa: BLE001 - raised by the block's end
            failures.append(error)

    thread = threading.Thread(target=go_on, name="query")
    thread.start()
    try:
        yield
    finally:
        stop.ask()
        thread.join(40)
    assert not thread.is_alive()
    assert not failures, failures


def start(group: Group, name: str = "query") -> Process:
    """A query of its own, as the command starts it."""
    command = [*COMMAND, "pipeline", "stream", "--config", str(group.file), "--set", f"pipeline.checkpoint={name}"]
    command += ["--set", 'pipeline.spark={"spark.master": "local[2]"}']
    process = Process(name, command, os.environ, group.folder / f"{name}.log")
    group.processes.append(process)
    return process
