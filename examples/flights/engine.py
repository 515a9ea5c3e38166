"""What runs the handler: a worker, or a streaming query on Spark. The rest of the demo is the same."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Role(NamedTuple):
    """One of the demo's processes."""

    name: str
    """Also the name of its log and its pid file."""

    command: Sequence[str]
    """Subcommand of ``redelivery``."""

    settings: Sequence[str] = ()
    """In addition to the configuration file."""


class Engine(StrEnum):
    """What ``--engine`` chooses."""

    WORKERS = "workers"
    SPARK = "spark"

    @property
    def max_undelivered(self) -> int:
        """Maximum number of records in ``flights`` that have not been delivered.

        It keeps a worker busy without a backlog, in which redeliveries would queue behind new records: the lateness in
        the report should be that of redelivery, not of a year of flights sent within ten seconds. A streaming query
        needs more for large micro-batches; its redeliveries wait for the next one anyway.
        """
        return 3000 if self is Engine.WORKERS else 20_000

    @property
    def note(self) -> str:
        """Remark on the lateness of redeliveries."""
        return "" if self is Engine.WORKERS else "; on Spark each waits for the next micro-batch"

    def roles(self, directory: Path) -> list[Role]:
        """The processes to run.

        Args:
            directory: the processes may write there.
        """
        scheduler = Role("scheduler", ("scheduler",))
        if self is Engine.WORKERS:
            return [Role("worker", ("worker",)), scheduler]
        checkpoint = f"pipeline.checkpoint={directory / 'checkpoint'}"
        return [Role("stream", ("pipeline", "stream"), (checkpoint,)), scheduler]

    def verify(self) -> None:
        """Check that the engine can run here, before anything is started.

        Raises:
            pipeline.errors.SparkUnavailableError: there is no Java for Spark.
        """
        if self is Engine.SPARK:
            from kafka_redelivery.pipeline.spark.java import find_spark_java  # noqa: PLC0415 - without Spark nothing of it is needed

            find_spark_java()
