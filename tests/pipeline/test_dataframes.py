"""A transformation of DataFrames takes the place of a handler: a record has one outcome, whatever its rows become."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from examples.dataframe import orders as orders_example
from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.stream.transformation import (
    _READ,
    Transformation,
    calls_functions,
    keeps_rows,
    refuse_several_records,
)
from kafka_redelivery.spark import KafkaTopic, Query, Redelivery, _transformation
from kafka_redelivery.transport.admin.errors import TopologyRefusedError
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]

SCHEMA = "n int, amount double, currency string"
MINUTES = timedelta(minutes=4)


def orders(numbers: range) -> list[Sent]:
    """Orders. Of ten one is negative, one has no customer, and one is in a currency that has no rate yet."""
    currency = {2: "XXX"}
    return [
        Sent(
            json.dumps(
                {"n": n, "amount": -1 if n % 10 == 1 else n / 2, "currency": currency.get(n % 10, "EUR")}
            ).encode(),
            key=b"%d" % (n % 7),
            partition=n % 2,
        )
        for n in numbers
    ]


def prepare(group: Group, redeliveries: int = 2, checkpoint: str = "checkpoint") -> Redelivery:
    """Create the topics of a group whose driver schedules, with so many redeliveries."""
    policy = {"initialRedeliveryDelay": 200, "redeliveryDelay": 200, "maximumRedeliveries": redeliveries}
    group.prepare(pipeline={"checkpoint": checkpoint, "scheduler": "driver"}, policyEntry={"redeliveryPolicy": policy})
    return Redelivery.load(group.file)


def in_order(n: int) -> int:
    """A UDF that raises."""
    if n % 10 == 4:
        raise ValueError(f"order {n}")
    return n


def settled(r: Redelivery, spark: SparkSession, group: Group, **options: object) -> None:
    """Run until no record waits."""
    query = r.start(spark, **options, schema=SCHEMA, available_now=True, until_settled=MINUTES)  # type: ignore[arg-type]
    assert query.awaitTermination(MINUTES.total_seconds())
    group.cluster.wait_for_markers(*(topic for topic in group.cluster.topics() if group.name in topic))


def test_each_record_has_one_outcome(group: Group, spark: SparkSession) -> None:
    """Rejected, tried again until a rate is there, filtered away, undecodable; and a join has two rows for a record."""
    r = prepare(group)
    check = r.guard(in_order, "int")
    rates = spark.createDataFrame([("EUR", 2.0), ("EUR", 3.0)], "currency string, rate double")

    def clean(given: DataFrame) -> DataFrame:
        found = given.where("n % 10 != 3").join(rates, "currency", "left")
        late = F.col("rate").isNull() & (F.col("_record.attempt") < 2)
        found = found.withColumn("late", late).withColumn("checked", check("n"))
        found = given.sparkSession.sql(
            "SELECT *, CASE WHEN amount < 0 THEN reject('a negative amount') WHEN late THEN retry('no rate yet') END"
            " AS sql FROM {rows}",
            rows=found,
        )
        failed = F.coalesce(F.col("sql"), F.col("checked.failure"))
        found = found.withColumn("_failure", failed).withColumn("attempt", F.col("_record.attempt"))
        return found.drop("checked", "late", "sql")

    broken = Sent(b"{no json", key=b"k", partition=0)
    group.cluster.produce(group.source, [*orders(range(40)), broken])
    settled(r, spark, group, transformation=clean, to=r.kafka(group.output))

    sent = [json.loads(record.value or b"") for record in group.cluster.read(group.output)]
    good = [n for n in range(40) if n % 10 not in {1, 2, 3, 4}]
    assert Counter(row["n"] for row in sent if row["currency"] == "EUR") == Counter(2 * good)
    assert {(row["n"], row["attempt"]) for row in sent if row["currency"] == "XXX"} == {
        (n, 2) for n in range(2, 40, 10)
    }
    assert len(sent) == 2 * len(good) + 4
    assert {record.key for record in group.cluster.read(group.output)} == {b"%d" % n for n in range(7)}

    dead = group.cluster.read(group.dead_letters)
    causes = [json.loads(dict(record.headers)["dlqDeliveryFailureCause"] or b"") for record in dead]
    assert Counter((each["reason"], each["exception"]) for each in causes) == {
        ("rejected", "Reject"): 4,
        ("redeliveries_exceeded", "NoRow"): 4,
        ("redeliveries_exceeded", "ValueError"): 4,
        ("undecodable", "DecodeError"): 1,
    }
    assert broken.value in {record.value for record in dead}
    assert {each["message"] for each in causes if each["exception"] == "ValueError"} == {
        f"order {n}" for n in range(4, 40, 10)
    }
    counts = Counter(dict(record.headers)["JMSXDeliveryCount"] for record in dead)

    read = r.read(spark, schema=SCHEMA)
    assert read.where("_failure is null and _record.attempt = 1").count() == 40
    assert read.where("_failure.kind = 'undecodable' and n is null").count() == 1
    assert r.read(spark, end=datetime(2020, 1, 1, tzinfo=UTC), schema=SCHEMA).count() == 0
    assert counts == {b"1": 4, b"3": 8, b"0": 1}


def test_a_function_that_only_computes_columns(group: Group, spark: SparkSession) -> None:
    """One that cannot be decoded has its own outcome all the same, byte for byte, even if a function raises for it."""
    r = prepare(group)
    inverse = F.lit(1) / (F.coalesce("n", F.lit(-1)) + 1)  # of such a record a division by zero
    broken = Sent(b"{no json", key=b"\xff", partition=0)
    group.cluster.produce(group.source, [*orders(range(10)), broken, *orders(range(10, 20))])
    failed = F.when(F.col("amount") < 0, r.reject("a negative amount"))
    failed = failed.when((F.col("n") == 2) & (F.col("_record.attempt") == 1), r.retry("not yet"))
    settled(
        r,
        spark,
        group,
        transformation=lambda given: given.withColumn("_failure", failed).withColumn("inverse", inverse),
        to=r.kafka(group.output),
    )

    sent = [json.loads(record.value or b"")["n"] for record in group.cluster.read(group.output)]
    assert Counter(sent) == Counter(n for n in range(20) if n % 10 != 1)
    dead = group.cluster.read(group.dead_letters)
    assert {record.value for record in dead} == {broken.value, *(each.value for each in orders(range(1, 20, 10)))}
    reasons = Counter(json.loads(dict(each.headers)["dlqDeliveryFailureCause"] or b"")["reason"] for each in dead)
    assert reasons == {"rejected": 2, "undecodable": 1}
    assert broken.key in {record.key for record in dead}


def test_records_may_be_filtered_away(group: Group, spark: SparkSession) -> None:
    """With ``on_missing="discard"``. A row that is not sent acknowledges its record."""
    r = prepare(group)
    group.cluster.produce(group.source, orders(range(20)))
    to = r.kafka(group.output, where="amount < 0")
    settled(r, spark, group, transformation=lambda given: given.where("n < 10"), to=to, on_missing="discard")
    assert [json.loads(record.value or b"")["n"] for record in group.cluster.read(group.output)] == [1]
    assert not group.dead()


def test_rows_of_a_delta_table(group: Group, spark: SparkSession) -> None:
    """The function of the example. Rows keep their types, and a second run appends nothing twice."""
    r = prepare(group, redeliveries=0)
    rates = spark.createDataFrame([("EUR", 2.0)], "currency string, rate double")
    at = F.timestamp_micros(F.lit(1_700_000_000_123_456))
    table = Path(group.folder) / "silver"
    target = r.delta(str(table), through=group.output)

    def with_time(given: DataFrame) -> DataFrame:
        found = orders_example.clean(given, rates).withColumn("at", at).withColumn("all", F.array("currency"))
        return found.withColumn("local.at", at.cast("timestamp_ntz"))

    for first in (0, 10):
        group.cluster.produce(group.source, orders(range(first, first + 10)))
        settled(r, spark, group, transformation=with_time, to=target)

    found = read_table(spark, str(table))
    types = ["n:int", "amount:double", "currency:string", "euros:double", "at:timestamp", "all:array<string>"]
    types.append("local.at:timestamp_ntz")
    assert sorted(each.simpleString() for each in found.schema) == sorted(types)
    rows = {row["n"]: row for row in found.collect()}
    assert found.count() == len(rows)
    assert sorted(rows) == [n for n in range(20) if n % 10 not in {1, 2}]
    assert rows[13]["euros"] == 13.0
    assert found.select(F.unix_micros("at")).distinct().collect() == [(1_700_000_000_123_456,)]
    assert {row["local.at"].microsecond for row in rows.values()} == {123_456}
    assert group.dead() == Counter({n: 1 for n in range(20) if n % 10 in {1, 2}})


@pytest.mark.long
def test_two_queries_run_in_one_session(group: Group, spark: SparkSession, tmp_path: Path) -> None:
    """At once, each with its own function of SQL, scheduler and end; they share the folder of the checkpoints."""
    other = Group(group.cluster, f"{group.name}.b", tmp_path / "other")
    other.folder.mkdir()

    def start(each: Group, retried: str) -> Query:
        r = prepare(each, checkpoint=str(tmp_path / "checkpoint"))
        text = f"SELECT n, _record, _record.attempt AS attempt, CASE WHEN {retried} THEN retry('later') END AS _failure"

        def later(given: DataFrame) -> DataFrame:
            return given.sparkSession.sql(text + " FROM {rows}", rows=given)

        return r.start(spark, later, to=r.kafka(each.output), schema=SCHEMA)

    def attempts(each: Group) -> dict[int, int]:
        sent = [json.loads(record.value or b"") for record in each.cluster.read(each.output)]
        assert len({row["n"] for row in sent}) == len(sent)
        return {row["n"]: row["attempt"] for row in sent}

    def send(each: Group, first: int) -> None:
        each.cluster.produce(each.source, orders(range(first, first + 10)))

    first, second = (start(each, f"n % 2 = {odd} AND _record.attempt < 3") for odd, each in enumerate((group, other)))
    send(group, 0)
    send(other, 0)
    for each, odd in ((group, 0), (other, 1)):
        until(lambda: len(attempts(each)) == 10, "all are sent", within_s=MINUTES.total_seconds())  # noqa: B023 - at once
        assert attempts(each) == {n: 3 if n % 2 == odd else 1 for n in range(10)}
    first.stop()
    assert second.isActive
    send(other, 10)
    until(lambda: len(attempts(other)) == 20, "the other one goes on", within_s=MINUTES.total_seconds())
    second.stop()
    assert [first.isActive, second.isActive] == [False, False]
    assert [group.dead(), other.dead()] == [{}, {}]


def test_a_cell_of_a_notebook_runs_again(group: Group, spark: SparkSession) -> None:
    """The second query of the same name goes on where the first one has ended."""
    r = prepare(group)
    for first in (0, 10):
        query = r.start(spark, lambda given: given, to=r.kafka(group.output), schema=SCHEMA)
        group.cluster.produce(group.source, orders(range(first, first + 10)))
        sent = partial(group.cluster.read, group.output)
        until(lambda: len(sent()) == first + 10, "all are sent", within_s=MINUTES.total_seconds())  # noqa: B023 - at once
    query.stop()


def test_a_source_grows_while_a_run_settles(group: Group, spark: SparkSession) -> None:
    """Each query of the run has start offsets of the partitions that there are."""
    r, calls = prepare(group), []

    def clean(given: DataFrame) -> DataFrame:
        calls.append(given)
        if len(calls) == 2:  # the first call has no records
            group.cluster.grow(group.source, 3)
            group.cluster.produce(group.source, [replace(each, partition=2) for each in orders(range(10, 20))])
        return given.withColumn("_failure", F.when(F.col("_record.attempt") == 1, r.retry("not yet")))

    group.cluster.produce(group.source, orders(range(10)))
    settled(r, spark, group, transformation=clean, to=r.kafka(group.output))
    sent = [json.loads(record.value or b"")["n"] for record in group.cluster.read(group.output)]
    assert sorted(sent) == list(range(20))


def test_what_loses_the_record_is_refused(group: Group, spark: SparkSession) -> None:
    """Before anything is opened, with the fix."""
    r = prepare(group)
    with pytest.raises(TopologyRefusedError, match=r"no\.such: the output topic does not exist"):
        r.start(spark, lambda given: given, to=r.kafka("no.such"), schema=SCHEMA)
    with pytest.raises(PipelineRefusedError, match="no column _record as it was given"):
        r.start(spark, lambda given: given.groupBy("currency").count(), schema=SCHEMA)
    with pytest.raises(PipelineRefusedError, match=r"_failure is of type string: make it of reject"):
        r.start(spark, lambda given: given.withColumn("_failure", F.lit("bad")), schema=SCHEMA)


def checked(
    spark: SparkSession,
    to: KafkaTopic,
    function: Callable[[DataFrame], DataFrame],
    schema: str = SCHEMA,
    **settings: object,
) -> Transformation:
    """Return what `start` makes of a transformation before anything is opened."""
    source = {"topic": "orders", "value": {"format": "json"}}
    r = Redelivery(group="billing", kafka={"bootstrap.servers": "nowhere"}, sources=[source], **settings)
    return _transformation(r._app.definition(), function, schema, to).checked(spark)


def read(spark: SparkSession, values: Iterable[bytes | None]) -> DataFrame:
    """Return records as they are read."""
    rows = [(b"k", value, None, "orders", 0, offset, 1000) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, _READ).coalesce(1)


def test_the_session_of_the_caller_stays_the_active_one(spark: SparkSession) -> None:
    """What PySpark creates next belongs to it, not to the clone in which the function is tried."""
    spark.createDataFrame([(1,)], "n int")
    checked(spark, KafkaTopic("receipts"), lambda given: given.withColumn("twice", 2 * F.col("n")))
    found = SparkSession.getActiveSession()
    assert found is spark
    of_java = SparkSession._get_j_spark_session_class(spark._jvm).getActiveSession().get()
    assert of_java.sessionUUID() == spark._jsparkSession.sessionUUID()


def test_columns_of_the_target_that_depend_on_several_records_are_refused(spark: SparkSession) -> None:
    """As those of the function: such a column also orders the records anew, and a task takes them in their order."""
    first = F.row_number().over(Window.partitionBy("currency").orderBy(F.desc("n"))) == 1
    for to in (
        KafkaTopic("receipts", where=first),
        KafkaTopic("receipts", key=first.cast("string")),
        KafkaTopic("receipts", value=first.cast("string")),
    ):
        with pytest.raises(PipelineRefusedError, match="the result of Window depends on other records"):
            checked(spark, to, lambda given: given)
    of_its_own = F.row_number().over(Window.partitionBy("_record").orderBy("n")) == 1
    found = checked(spark, KafkaTopic("receipts", where=of_its_own), lambda given: given)
    assert not found.computes_columns


def test_one_branch_has_the_outcomes_of_two(spark: SparkSession) -> None:
    """It reads and orders nothing anew. The columns of the target are looked at, too, and not computed if it failed."""
    inverse = (1 / (F.col("amount") + 1)).cast("string")  # of the rejected row a division by zero
    to = KafkaTopic("receipts", inverse, inverse, (F.col("n") != 3) & (inverse != ""))
    r = Redelivery
    failure = F.when(F.col("amount") < 0, r.reject("a negative amount"))
    found = checked(spark, to, lambda given: given.withColumn("_failure", failure))
    assert found.computes_columns
    values = [each.value for each in orders(range(6))] + [b"{no json", None]
    frame = read(spark, values)

    def meant(given: DataFrame) -> list[tuple[object, ...]]:
        return [
            (row.offset, row.value, each.failure and each.failure.kind, each.sent and each.value)
            for row in given.collect()
            for each in row.outcomes
        ]

    once, twice = found.outcomes(frame, 2), found.outcomes(frame, 2, again=True)
    assert "Exchange" not in once._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" in twice._jdf.queryExecution().executedPlan().toString()
    assert meant(once) == meant(twice)
    assert [(row[0], row[2]) for row in meant(once)] == [
        *enumerate([None, "rejected", *[None] * 4, "undecodable", None])
    ]

    function = F.udf(lambda n: n == 1, "boolean")
    assert not checked(spark, KafkaTopic("receipts", where=function("n")), lambda given: given).computes_columns


def test_a_row_that_is_drawn_is_drawn_once(spark: SparkSession, tmp_path: Path) -> None:
    """It is encoded and sent, or neither: no output is a tombstone."""
    fields = [{"name": "n", "type": "int"}]
    (tmp_path / "row.avsc").write_text(json.dumps({"type": "record", "name": "Row", "fields": fields}))
    value = {"format": "avro", "schemas": {"7": str(tmp_path / "row.avsc")}, "writeId": 7}
    failure = F.when(F.col("n") % 2 == 1, Redelivery.reject("odd"))
    found = checked(
        spark,
        KafkaTopic("receipts", where=F.rand() < 0.5),
        lambda given: given.withColumn("_failure", failure),
        "n int",
        outputs=[{"topic": "receipts", "value": value}],
    )
    rows = found.outcomes(read(spark, [each.value for each in orders(range(100))]), 1).collect()
    entries = [each for row in rows for each in row.outcomes]
    assert len(entries) == 100
    assert all(each.sent is (each.value is not None) for each in entries)
    assert 0 < sum(each.sent for each in entries) < 50


def test_times_of_a_source_may_have_any_form(spark: SparkSession) -> None:
    """Of ISO 8601."""
    found = checked(spark, KafkaTopic("receipts"), lambda given: given, "at timestamp, `local.at` timestamp_ntz")
    given = ["", ".1", ".123456"]
    texts = [f"2024-01-01T00:00:00{part}{zone}" for part in given for zone in ("Z", "+00:00", "+02:00", "-0130", "")]
    frame = read(spark, [json.dumps({"at": text, "local.at": text[:19]}).encode() for text in texts])
    entries = [each for row in found.outcomes(frame, 1).collect() for each in row.outcomes]
    assert [each.failure for each in entries] == [None] * len(texts)
    values = spark.createDataFrame([(each.value,) for each in entries], "value binary")
    micros = [row[0] % 1_000_000 for row in found.table_rows(values).select(F.unix_micros("at")).collect()]
    assert Counter(micros) == {0: 5, 100_000: 5, 123_456: 5}
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    assert [datetime.fromisoformat(json.loads(each.value)["at"]) for each in entries] == [
        time if time.tzinfo else time.replace(tzinfo=ZoneInfo(zone)) for time in map(datetime.fromisoformat, texts)
    ]


def test_a_result_with_one_row_for_each_record_is_recognised(spark: SparkSession) -> None:
    """It is read once, and not shuffled. Functions of users could raise for what cannot be decoded."""
    given = spark.createDataFrame([], "_record struct<id: string>, n int").select("*")
    columns = given.withColumn("m", F.col("n") / 2).select("_record", F.coalesce("m", "n").alias("k")).alias("a")
    assert keeps_rows(given, given)
    assert keeps_rows(given, columns)
    assert not calls_functions(given, columns)
    for raising in (F.udf(lambda n: n)("n"), F.assert_true(F.col("n") > 0)):
        assert keeps_rows(given, given.withColumn("m", raising))
        assert calls_functions(given, given.withColumn("m", raising))
    table = given.select("n")
    among = spark.sql("SELECT *, n IN (SELECT n FROM {table}) AS found FROM {given}", table=table, given=given)
    for other in (given.where("n > 0"), given.join(table, "n", "left"), given.union(given), given.limit(1), among):
        assert not keeps_rows(given, other)
    assert not keeps_rows(given, given.select("*", F.explode(F.array("n"))))


def test_what_depends_on_several_records_is_refused(spark: SparkSession) -> None:
    """What joined tables are made of is not looked at, and rows of one record may be grouped."""
    given = spark.createDataFrame([], "_record struct<id: string, source: string>, n int")
    table = spark.createDataFrame([(1, 2)], "n int, more int").groupBy("n").agg(F.max("more")).limit(5)
    within, over = Window.partitionBy("_record"), Window.partitionBy("n")
    numbers, grouped, no_time = given.select(F.col("n").alias("m")), given.groupBy("n"), ("update", "NoTimeout")
    not_called: Any = None

    def sql(text: str) -> DataFrame:
        return spark.sql(text, given=given, table=table)

    for good in (
        given.join(table, "n", "left"),
        given.groupBy("_record").agg(F.sum("n")),
        given.dropDuplicates(),
        given.withColumn("m", F.count("n").over(within)),
        given.unionByName(given.where("n > 1")),
        given.nearestByJoin(table.withColumnRenamed("n", "m"), F.abs(F.col("n") - F.col("m")), 1, "exact", "distance"),
        given.join(given.groupBy("_record").agg(F.sum("n").alias("m")), "_record"),
        sql("SELECT *, (SELECT max(t.n) FROM {table} t WHERE t.n = g.n) AS m FROM {given} g"),
        sql("WITH x AS (SELECT *, n + 1 AS m FROM {given}) SELECT * FROM x"),
    ):
        refuse_several_records(given, good)
    for name, bad in (
        ("Aggregate", given.groupBy("n").agg(F.first("_record").alias("_record"))),
        ("Deduplicate", given.dropDuplicates(["n"])),
        ("Window", given.withColumn("m", F.count("n").over(over)).join(table, "n")),
        ("GlobalLimit", given.limit(3)),
        ("Except All", given.exceptAll(given.where("n = 1"))),
        ("Window", given.withColumn("m", F.count("n").over(Window.partitionBy("_record.source")))),
        (
            "Window",
            given.withColumn("_record_2", F.lit(1)).withColumn("m", F.count("n").over(Window.partitionBy("_record_2"))),
        ),
        ("Join", given.join(given.groupBy("n").count(), "n")),
        ("Join", given.join(given.select("n"), "n", "left_anti")),
        ("AsOfJoin", given._joinAsOf(numbers, "n", "m")),
        ("NearestByJoin", given.nearestByJoin(numbers, F.col("m"), 1, "exact", "distance")),
        (
            "FlatMapGroupsInPandasWithState",
            grouped.applyInPandasWithState(lambda *_: iter([]), "n int", "n int", *no_time),
        ),
        ("TransformWithStateInPySpark", grouped.transformWithState(not_called, "n int", "update", "none")),
        ("a subquery", sql("SELECT *, (SELECT max(n) FROM {given}) AS m FROM {given}")),
        ("a subquery", sql("SELECT * FROM {given} WHERE n NOT IN (SELECT n FROM {given})")),
        ("Window", sql("WITH x AS (SELECT * FROM {given}) SELECT *, count(*) OVER (PARTITION BY n) AS m FROM x")),
    ):
        with pytest.raises(PipelineRefusedError, match=f"the result of {name} depends on other records"):
            refuse_several_records(given, bad)
