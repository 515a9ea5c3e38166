"""Who runs the handler: a worker, or a streaming query on Spark. Everything else of the demo is the same."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Role(NamedTuple):
    """One of the demo's processes."""

    name: str
    """Also of its log and of the file with its process id."""

    command: Sequence[str]
    """Of ``redelivery``."""

    settings: Sequence[str] = ()
    """Beside those of the configuration file."""


class Engine(StrEnum):
    """What ``--engine`` chooses."""

    WORKERS = "workers"
    SPARK = "spark"

    @property
    def ahead(self) -> int:
        """So many records at most are in ``flights`` without having been delivered.

        A worker is kept busy, but no backlog builds up, in which redeliveries would have to queue behind new records:
        the lateness at the end is to tell about redelivery, not about a year of flights that arrive within ten
        seconds. A streaming query needs more for its micro-batches to be worth their while; its redeliveries wait for
        the next one anyway.
        """
        return 3000 if self is Engine.WORKERS else 20_000

    @property
    def note(self) -> str:
        """What to know about the lateness of redeliveries."""
        return "" if self is Engine.WORKERS else "; on Spark each waits for the next micro-batch"

    def roles(self, directory: Path) -> list[Role]:
        """The processes to run.

        Args:
            directory: where they may write.
        """
        scheduler = Role("scheduler", ("scheduler",))
        if self is Engine.WORKERS:
            return [Role("worker", ("worker",)), scheduler]
        checkpoint = f"pipeline.checkpoint={directory / 'checkpoint'}"
        return [Role("stream", ("pipeline", "stream"), (checkpoint,)), scheduler]

    def verify(self) -> None:
        """See whether it can run here, before anything is started.

        Raises:
            pipeline.errors.SparkUnavailableError: there is no Java that Spark runs on.
        """
        if self is Engine.SPARK:
            from pipeline.spark_java import find_spark_java  # noqa: PLC0415 - without Spark nothing of it is needed

            find_spark_java()
