"""Seat-miles of flights by a transformation of DataFrames: `./dev demo --engine dataframe` runs and checks it."""

import signal
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.spark import Redelivery, session_settings

HERE = Path(__file__).parent / "flights"
PLANE = {"format": "avro", "schemas": {2: str(HERE / "schemas/plane.avsc")}}
SCHEMA = """year int, month int, day int, dep_time int, carrier string, flight int, origin string, dest string,
    tailnum string, distance int"""

r = Redelivery.load(HERE / "redelivery.yaml")
planes = Redelivery(group="planes", kafka=r.settings.kafka, sources=[{"topic": "planes", "value": PLANE}])
target = r.kafka("seat_miles", where="seat_miles IS NOT NULL")


def seat_miles(flights: DataFrame) -> DataFrame:
    """Planes are read again in each micro-batch, so a flight may find its plane when it is tried again."""
    seats = planes.read(flights.sparkSession, schema="tailnum string, seats int").select("tailnum", "seats")
    seats = seats.dropDuplicates(["tailnum"])  # a producer may have sent a plane twice
    flown = F.col("dep_time").isNotNull()
    failure = F.when(F.col("tailnum").isNull(), r.reject("the flight has no tail number"))
    failure = failure.when(flown & F.col("seats").isNull(), r.retry(F.concat(F.lit("no plane "), "tailnum")))
    rows = flights.join(F.broadcast(seats), "tailnum", "left").withColumn("_failure", failure)
    miles = F.when(flown, F.col("seats") * F.col("distance"))
    return rows.select("*", F.col("_record.id").alias("message_id"), miles.alias("seat_miles")).drop("dep_time")


if __name__ == "__main__":
    spark = SparkSession.builder.config(map=session_settings()).getOrCreate()
    query = r.start(spark, seat_miles, to=target, schema=SCHEMA)
    signal.signal(signal.SIGTERM, lambda *_: query.stop())
    query.awaitTermination()
