"""Orders become rows of a Delta table. Negative ones are dead letters; those without a rate are tried again."""

from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery import RedeliveryPolicy
from kafka_redelivery.spark import Redelivery, session_settings

SCHEMA = "id string, amount double, currency string"

r = Redelivery(
    group="silver",
    kafka={"bootstrap.servers": "localhost:9092"},
    sources=[{"topic": "orders", "value": {"format": "json"}}],
    policy=RedeliveryPolicy(initial_redelivery_delay=1000, maximum_redeliveries=3),
    pipeline={"checkpoint": "checkpoint", "scheduler": "driver"},
)


def clean(orders: DataFrame, rates: DataFrame) -> DataFrame:
    """Add the amount in euros. A left join keeps the orders that cannot be converted yet."""
    negative, no_rate = F.col("amount") < 0, F.col("rate").isNull()
    failure = F.when(negative, r.reject("a negative amount")).when(no_rate, r.retry("no exchange rate yet"))
    rows = orders.join(rates, "currency", "left").withColumn("_failure", failure)
    return rows.withColumn("euros", F.round(F.col("amount") * F.col("rate"), 2)).drop("rate")


def main() -> None:
    """Run until Ctrl-C."""
    spark = SparkSession.builder.config(map=session_settings(delta=True)).getOrCreate()
    rates = spark.createDataFrame([("EUR", 1.0), ("USD", 0.9)], "currency string, rate double")
    r.apply()
    table = r.delta("silver", through="orders.clean")
    query = r.start(spark, lambda orders: clean(orders, rates), to=table, schema=SCHEMA)
    with suppress(KeyboardInterrupt):
        query.awaitTermination()
    query.stop()  # finishes the micro-batch


if __name__ == "__main__":
    main()
