"""Makes an archive of the classes that Spark loads at its start: ``python -m tests.spark_archive FILE``."""

import os
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame

from kafka_redelivery.pipeline.spark.session import spark_session


def make(archive: Path, flags: str) -> None:
    """Run a small query in a JVM that writes the archive when it ends. A name of its own makes it appear complete."""
    unfinished = archive.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{flags} -XX:ArchiveClassesAtExit={unfinished}"
    with spark_session("archive", {"spark.master": "local[2]"}) as session:
        stream = session.readStream.format("rate").load().writeStream.trigger(availableNow=True)
        stream.foreachBatch(_count).start().awaitTermination()
    assert SparkContext._gateway is not None
    java = SparkContext._gateway.proc
    java.stdin.close()  # its sign to end
    java.wait()
    unfinished.rename(archive)


def _count(batch: DataFrame, _: int) -> None:
    batch.count()


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2])
