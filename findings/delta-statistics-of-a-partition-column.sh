#!/bin/sh
# A Delta table whose statistics name a partition column is made and filled, and refuses another column.
#
# Versions: Delta Lake 4.4.0 (delta-spark_4.2_2.13), PySpark 4.2.0.
# Good guess: delta.dataSkippingStatsColumns is checked when a table is made with it. Delta keeps no statistics of partition
#   columns, so naming one is an error then, or is ignored.
# Seen: a session that gives the property to new tables (spark.databricks.delta.properties.defaults...) makes a table that is
#   partitioned by one of the named columns, and appends to it. The first change of the schema is refused, by ALTER TABLE
#   as by an append with mergeSchema: DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN.
# For a user: the table works until a release adds a column, and then every write of it fails. Leave partition columns
#   out of the list. A table that has one is repaired with
#   ALTER TABLE ... SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id').
#
# Needs: python3 with venv, a JDK of version 17 or newer, mvn, timeout, 500 MB. It exits with 0 if all this is still so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

python3 -m venv venv
timeout 600 venv/bin/pip install -q --disable-pip-version-check pyspark==4.2.0
for artifact in delta-spark_4.2_2.13 delta-storage; do
    timeout 300 mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
        -Dartifact=io.delta:$artifact:4.4.0 -DoutputDirectory=jars
done

cat > table.py <<'PYTHON'
from pathlib import Path

from pyspark.sql import SparkSession

TABLE = Path("table").absolute()
session = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", "jars/delta-spark_4.2_2.13-4.4.0.jar,jars/delta-storage-4.4.0.jar")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
session.conf.set("spark.databricks.delta.properties.defaults.dataSkippingStatsColumns", "id,day")
rows = session.range(3).selectExpr("id", "'monday' AS day")
wider = rows.selectExpr("*", "1 AS n")


def append(frame, **options):
    frame.write.format("delta").mode("append").options(**options).partitionBy("day").save(str(TABLE))


def alter(what):
    session.sql(f"ALTER TABLE delta.`{TABLE}` {what}")


def outcome(step):
    try:
        step()
    except Exception as error:
        return str(error).partition("]")[0].lstrip("[")
    return "accepted"


refused = "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN"
steps = [
    ("make it", lambda: append(rows), "accepted"),
    ("append", lambda: append(rows), "accepted"),
    ("append with another column", lambda: append(wider, mergeSchema="true"), refused),
    ("add a column", lambda: alter("ADD COLUMN n INT"), refused),
    ("name other statistics", lambda: alter("SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id')"), "accepted"),
    ("append with another column", lambda: append(wider, mergeSchema="true"), "accepted"),
]
for name, step, expected in steps:
    seen = outcome(step)
    print(f"{name}: {seen}")
    if seen != expected:
        print(f"CHANGED: {name} was: {expected}")
        raise SystemExit(1)
PYTHON
timeout 300 venv/bin/python table.py 2>/dev/null
