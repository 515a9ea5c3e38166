"""The Spark session that the tests of the pipeline share; one in each process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.session import spark_session
from tests.scenarios.cluster import Cluster
from transport.embedded import EmbeddedKafka


@pytest.fixture
def cluster(kafka: EmbeddedKafka) -> Cluster:
    """The shared broker."""
    return Cluster(kafka.bootstrap_servers)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two threads."""
    settings = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    with spark_session("tests", settings) as session:
        yield session
