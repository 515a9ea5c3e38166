"""A consumer group whose records are handled by a streaming query, in the session that tests share."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.audit import AuditOptions, audit
from pipeline.stopping import Stop
from pipeline.stream import run_stream
from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.waiting import until
from topology.configuration import load_settings

HANDLER = "tests.pipeline.handlers:scripted"

LONG_S = 120.0
"""A query of its own starts within 15 s on an idle machine; a shared one can be much slower."""


def prepare(group: Group, **sections: Any) -> None:  # noqa: ANN401 - as in a file
    """Topics and configuration of a group with a query."""
    handler = {"callable": HANDLER} | sections.pop("handler", {})
    pipeline = {"checkpoint": "checkpoint"} | sections.pop("pipeline", {})
    group.prepare(handler=handler, pipeline=pipeline, **sections)


def run(group: Group, spark: SparkSession) -> None:
    """Handle once what is there now."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    run_stream(settings, Path(group.folder), available_now=True, session=spark)


class Gate:
    """A record that waits in its handler until it is let go, and tells that it is there: a micro-batch is under way."""

    def __init__(self, group: Group, name: str) -> None:
        self._file = group.folder / name
        self._held = self._file.with_suffix(".held")
        self.step = f"hold {self._file}"

    def reached(self, *processes: Process) -> None:
        """Wait until a handler is there."""
        until(
            lambda: self._held.exists() or not all(each.running for each in processes),
            f"{self._file.name} is reached",
            within_s=LONG_S,
        )
        assert self._held.exists(), [each.log[-3000:] for each in processes]

    def open(self) -> None:
        """Let it go, and whoever comes later."""
        self._file.touch()


def audited(group: Group, spark: SparkSession) -> Mapping[str, int]:
    """What became of the records, after an audit that found nothing missing or doubled."""
    result = audit(spark, load_settings(group.file.read_text(encoding="utf-8")), AuditOptions())
    assert result.conserved, result.findings
    return {state: count for state, count in result.document()["states"].items() if count}


@contextmanager
def running(group: Group, spark: SparkSession, *, shutdown_s: float = 25) -> Iterator[Stop]:
    """Handle what comes while the block runs; at its end the micro-batch under way has so long to finish."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    stop = Stop(timedelta(seconds=shutdown_s))
    failures: list[BaseException] = []

    def go_on() -> None:
        try:
            run_stream(settings, Path(group.folder), session=spark, stop=stop)
        except BaseException as error:  # noqa: BLE001 - raised by the block's end
            failures.append(error)

    thread = threading.Thread(target=go_on, name="query")
    thread.start()
    try:
        yield stop
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
