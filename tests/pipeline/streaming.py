"""Runs a streaming query for a consumer group, in the shared session of the tests."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.audit.audit import AuditOptions, audit
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.stream import run_stream
from kafka_redelivery.topology.config.loading import load_settings
from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.waiting import until

HANDLER = "tests.pipeline.handlers:scripted"

LONG_S = 120.0
"""A query in its own process starts within 15 s on an idle machine and is slower on a busy one."""


def prepare(group: Group, **sections: Any) -> None:  # noqa: ANN401 - as in a file
    """Create the topics and configuration of a group with a query."""
    handler = {"callable": HANDLER} | sections.pop("handler", {})
    pipeline = {"checkpoint": "checkpoint"} | sections.pop("pipeline", {})
    group.prepare(handler=handler, pipeline=pipeline, **sections)


def run(group: Group, spark: SparkSession, *, skip_removed: bool = False) -> None:
    """Handle the records that exist now once, and wait until all that was written can be read."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    run_stream(settings, Path(group.folder), available_now=True, skip_removed=skip_removed, session=spark)
    group.cluster.wait_for_markers(*(topic for topic in group.cluster.topics() if group.name in topic))


def settle(group: Group, spark: SparkSession, *, minutes: float) -> None:
    """Handle records until none waits, for at most some minutes."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    within = timedelta(minutes=minutes)
    run_stream(settings, Path(group.folder), available_now=True, until_settled=within, session=spark)
    group.cluster.wait_for_markers(*(topic for topic in group.cluster.topics() if group.name in topic))


class Gate:
    """A record that waits in its handler until the gate opens, so that a micro-batch is running."""

    def __init__(self, group: Group, name: str) -> None:
        self._file = group.folder / name
        self._held = self._file.with_suffix(".held")
        self.step = f"hold {self._file}"

    @property
    def held(self) -> bool:
        """Whether a handler has the record."""
        return self._held.exists()

    def reached(self, *processes: Process) -> None:
        """Wait until a handler has the record."""
        until(
            lambda: self.held or not all(each.running for each in processes),
            f"{self._file.name} is reached",
            within_s=LONG_S,
        )
        assert self.held, [each.log[-3000:] for each in processes]

    def open(self) -> None:
        """Let this handler and later ones continue."""
        self._file.touch()


def audited(group: Group, spark: SparkSession) -> Mapping[str, int]:
    """Return the numbers of records by state, after an audit without findings."""
    result = audit(spark, load_settings(group.file.read_text(encoding="utf-8")), AuditOptions())
    assert result.conserved, result.findings
    return {state: count for state, count in result.document()["states"].items() if count}


@contextmanager
def running(group: Group, spark: SparkSession, *, shutdown_s: float = 25) -> Iterator[Shutdown]:
    """Run the query during the block. At its end the running micro-batch may take ``shutdown_s`` seconds."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    shutdown = Shutdown(timedelta(seconds=shutdown_s))
    failures: list[BaseException] = []

    def go_on() -> None:
        try:
            run_stream(settings, Path(group.folder), session=spark, shutdown=shutdown)
        except BaseException as error:  # noqa: BLE001 - raised by the block's end
            failures.append(error)

    thread = threading.Thread(target=go_on, name="query")
    thread.start()
    try:
        yield shutdown
    finally:
        shutdown.request()
        thread.join(LONG_S)
    assert not thread.is_alive()
    assert not failures, failures


def start(group: Group, name: str = "query") -> Process:
    """Start the command in its own process."""
    command = [*COMMAND, "pipeline", "stream", "--config", str(group.file), "--set", f"pipeline.checkpoint={name}"]
    command += ["--set", 'pipeline.spark={"spark.master": "local[2]"}']
    process = Process(name, command, os.environ, group.folder / f"{name}.log")
    group.processes.append(process)
    return process
