"""The Spark session that the tests of the pipeline share; one in each process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.session import spark_session
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group
from transport.embedded import EmbeddedKafka


@pytest.fixture
def cluster(kafka: EmbeddedKafka) -> Cluster:
    """The shared broker."""
    return Cluster(kafka.bootstrap_servers)


@pytest.fixture
def group(cluster: Cluster, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A consumer group with its own names, and a folder for its configuration and logs."""
    found = Group(cluster, unique, tmp_path)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two threads."""
    settings = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    with spark_session("tests", settings) as session:
        yield session
