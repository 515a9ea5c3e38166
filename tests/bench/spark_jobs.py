"""Jobs of DataFrames with a process of their own each, which end when they have handled what is there."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.spark import Redelivery, session_settings


def ours(servers: str, source: str, target: str, config: str) -> dict[str, object]:
    """Send the records on under a policy."""
    del servers, source  # the configuration has them
    r, spark = Redelivery.load(config), _session()  # a column needs a session
    r.start(spark, _none_fails, to=r.kafka(target, value=F.col("value")), available_now=True).awaitTermination()
    return {}


def bare(servers: str, source: str, target: str, config: str) -> dict[str, object]:
    """Send the records on with Spark alone."""
    frame = _session().readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = frame.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", target)
    checkpoint = Path(config).with_name("checkpoint-bare")
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return {}


def _none_fails(records: DataFrame) -> DataFrame:
    return records.withColumn("_failure", F.lit(None))


def _session() -> SparkSession:
    return SparkSession.builder.master("local[2]").config(map=session_settings()).getOrCreate()
