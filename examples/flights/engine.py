"""What handles flights: a worker, or a query on Spark, with the handler or of DataFrames. The rest is the same."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from examples.flights.roles import Role, broker, redelivery


class Roles(NamedTuple):
    """The processes of a run, each list in the order in which they start."""

    cluster: list[Role]
    """Where the query runs, if that is a cluster. They end after the group's processes."""

    group: list[Role]


class Engine(StrEnum):
    """What ``--engine`` chooses."""

    WORKERS = "workers"
    SPARK = "spark"
    SPARK_CLUSTER = "spark-cluster"
    DATAFRAME = "dataframe"
    DATAFRAME_CLUSTER = "dataframe-cluster"

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

    def roles(self, directory: Path, servers: str, settings: Sequence[str] = ()) -> Roles:
        """The processes to run.

        Args:
            directory: the processes may write there.
            servers: where Kafka is.
            settings: of a worker and its scheduler, in addition to the configuration file.

        Raises:
            TransportError: a jar of Spark's Kafka connector cannot be downloaded or fails its check.
        """
        # A stable instance name lets the successor take over its transaction and its partitions immediately.
        common = ("instance=1", *settings)
        scheduler = Role("scheduler", redelivery(("scheduler",), *common), broker(servers))
        if self is Engine.WORKERS:
            return Roles([], [Role("worker", redelivery(("worker",), *common), broker(servers)), scheduler])
        from examples.flights import cluster  # noqa: PLC0415 - without Spark nothing of it is needed

        checkpoint = directory / "checkpoint"
        if self is Engine.SPARK:
            command = redelivery(("pipeline", "stream"), f"pipeline.checkpoint={checkpoint}")
            return Roles([], [Role("stream", command, broker(servers)), scheduler])
        if self is Engine.DATAFRAME:
            return Roles([], [cluster.dataframe_query(checkpoint, servers), scheduler])
        nodes = cluster.cluster_roles(directory)
        query = cluster.submitted_query if self is Engine.SPARK_CLUSTER else cluster.submitted_dataframe_query
        return Roles(nodes, [query(directory, nodes[0], servers, checkpoint), scheduler])

    def verify(self) -> None:
        """Check that the engine can run here, before anything is started.

        Raises:
            pipeline.errors.PipelineRefusedError: there is no Java for Spark.
        """
        if self is not Engine.WORKERS:
            from kafka_redelivery.pipeline.spark.session import find_spark_java  # noqa: PLC0415 - without Spark nothing of it is needed

            find_spark_java()
