"""The Spark session that the tests of the pipeline share, one per process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.spark.jars import DELTA
from kafka_redelivery.pipeline.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two threads, and with Delta Lake, as the commands have it."""
    settings = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        "spark.databricks.delta.snapshotPartitions": "1",
        # Compiling a query takes longer than running it over a few records.
        "spark.sql.codegen.wholeStage": "false",
    }
    with spark_session("tests", settings, [DELTA]) as session:
        yield session
