"""The Spark session that the tests of the pipeline share; one in each process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two threads."""
    settings = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        # Each query would be compiled, which takes longer than to run it over a few records.
        "spark.sql.codegen.wholeStage": "false",
    }
    with spark_session("tests", settings) as session:
        yield session
