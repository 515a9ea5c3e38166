"""A transformation of DataFrames in place of a handler: what it is given, and the outcomes that its rows mean.

A micro-batch becomes two branches: the records as they were read, and the rows of the transformation. Both are brought
together by the place of the record, so a record without a row is noticed, whatever filter or join has removed it. A
task gets whole partitions, in order, and writes them as those of a handler.

A transformation that only computes columns has one row for each record, in their order. Then there is one branch, which
brings the records along, and no shuffle. It also has the records that cannot be decoded, with columns of nulls. So it
is a first attempt: if it fails, the next one has two branches, and the function does not get these records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructType

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.frames import header_number, header_text, header_time
from kafka_redelivery.pipeline.handler.computed import OUTCOMES, Computing
from kafka_redelivery.pipeline.spark.session import clone_of
from kafka_redelivery.pipeline.stream.row_codecs import RowCodecs
from kafka_redelivery.pipeline.stream.start_offsets import ready_topics
from kafka_redelivery.topology.config.settings import (
    HandlerDefaults,
    OutputSection,
    SerdeSection,
    Settings,
    SinkSection,
)
from kafka_redelivery.topology.policy.decision import FailureKind
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_ADDRESS, ORIG_MESSAGE_ID, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORD, FAILURE = "_record", "_failure"

FAILURE_TYPE: Final = "struct<kind:string,exception:string,message:string,after_ms:bigint>"
_ENCODED, _SENT = "_encoded", "_redelivery_sent"
_PLACE: Final = ("topic", "partition", "offset")
_BROUGHT: Final = ("key", "value", "headers", "timestamp")
_READ: Final = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, "
    "offset bigint, timestamp bigint"
)
"""What a micro-batch has; ``timestamp`` is in epoch ms."""

_T = TypeVar("_T")
_Added: TypeAlias = "list[tuple[str, Column]]"
"""Columns with their names, each of which may be made of those before it."""

_CORRUPT: Final = "_corrupt"
"""Why a record cannot be decoded; null = it can be. In JSON, for Spark: what cannot be parsed."""

_MICROSECONDS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_JSON: Final = {"timestampFormat": f"{_MICROSECONDS}XXX", "timestampNTZFormat": _MICROSECONDS}
"""How rows are written: the default has no microseconds. Only the default reads any time of ISO 8601."""


def failure(kind: FailureKind, exception: str | Column, message: Column, after_ms: int | None = None) -> Column:
    """Return a failure as the column ``_failure`` has it."""
    fields = (F.lit(str(kind)), F.lit(exception), message.cast("string"), F.lit(after_ms))
    return F.struct(*fields).cast(FAILURE_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """A function of DataFrames, and where its rows go."""

    settings: Settings
    """The configuration as it was given; :meth:`settings_of_query` makes of it that of the query."""

    function: Callable[[DataFrame], DataFrame]
    schema: StructType | None
    """The columns of values in JSON."""

    computing: Computing
    key: Column | None
    """The key of an output; ``None`` = that of the record."""

    value: Column | None
    """The value of an output; ``None`` = all columns, in the format of the output."""

    sent: Column | None
    """Which rows are sent; ``None`` = all."""

    codecs: RowCodecs

    name: str
    """The name of the query in Spark."""

    sink: SinkSection | None = None
    """The table that gets the rows, too."""

    columns: StructType = field(default_factory=StructType)
    """The columns of its rows that are data, once it is :meth:`checked`."""

    computes_columns: bool = False
    """Whether it has only computed columns when it was :meth:`checked`."""

    _made: dict[object, Any] = field(default_factory=dict, compare=False)
    """Columns, by what they are for. Each part of one is a call to the JVM, and each micro-batch has the same ones."""

    _sessions: set[str] = field(default_factory=set)
    """The sessions that have the functions of SQL. Those of micro-batches are one session."""

    def checked(self, spark: SparkSession) -> Transformation:
        """Apply the function to no records; return it with the columns of its result.

        Raises:
            PipelineRefusedError: its result cannot be used; says why.
        """
        # Micro-batches run in a clone of the session, too. It gets the functions of SQL, and the user's does not.
        given = self._given(self._decoded(_no_records(clone_of(spark))))
        result = self._result(given)
        columns = result.drop(RECORD, FAILURE).schema
        if self.sink is not None:
            refuse_columns(columns)
        found = self._outcomes(result)  # with the columns of the target
        refuse_several_records(given, found)
        of_target = [each for each in (self.key, self.value, self.sent) if each is not None]
        alone = keeps_rows(given, found) and (
            self._all_decodable or not calls_functions(given, result.select("*", *of_target))
        )
        return replace(self, columns=columns, computes_columns=alone)

    @property
    def _all_decodable(self) -> bool:
        """Whether the function may get each record, since no format can be violated."""
        sides = (side for each in self.settings.sources for side in (each.key, each.value))
        return all(side.format == "raw" for side in sides)

    def table_rows(self, records: DataFrame) -> DataFrame:
        """Convert records of the topic of :attr:`sink` to the rows that were sent to it."""
        row = F.from_json(F.col("value").cast("string"), self.columns).alias("row")
        return records.select(row).select("row.*")

    def settings_of_query(self) -> Settings:
        """Return the configuration of the query: its tasks call no handler and decode nothing."""
        raw = {"key": SerdeSection(), "value": SerdeSection(), "handler": None}
        update: dict[str, object] = {
            "sources": tuple(each.model_copy(update=raw) for each in self.settings.sources),
            "handler": HandlerDefaults(callable="kafka_redelivery.spark:Redelivery", vectorized=True),
        }
        topic, listed = self.computing.topic, {each.topic for each in self.settings.outputs}
        if topic is not None and topic not in listed:  # one that is missing is no fault of the records
            update["outputs"] = (*self.settings.outputs, OutputSection(topic=topic))
        if self.settings.pipeline is not None:
            update["pipeline"] = self.settings.pipeline.model_copy(update={"sink": self.sink})
        copied = self.settings.model_copy(update=update)
        copied.__dict__.pop("handlers", None)  # a cached property
        return copied

    def batch(self, frame: DataFrame) -> DataFrame:
        """Return records as the function gets them, with ``_failure`` for those that cannot be decoded."""
        decoded = self._decoded(frame)
        return self._given(decoded, _undecodable().alias(FAILURE))

    def outcomes(self, frame: DataFrame, tasks: int, *, again: bool = False) -> DataFrame:
        """Return the records of a micro-batch with their outcomes, for so many tasks.

        ``again``: an attempt has failed, perhaps for a record that cannot be decoded.
        """
        decoded = self._decoded(frame)
        if self.computes_columns and not again:
            given = self._given(decoded, bringing=True)
            found = self._outcomes(self._result(given), bringing=True)
            if keeps_rows(given, found):
                return found.coalesce(tasks)
        read = decoded.select(*_PLACE, *self._once("read", _read_columns))
        found = self._outcomes(self._result(self._given(decoded.where(F.col(_CORRUPT).isNull()))))
        both = read.unionByName(found, allowMissingColumns=True).repartition(tasks, "topic", "partition")
        merged = both.groupBy(*_PLACE).agg(
            F.first("record", ignorenulls=True).alias("record"), F.collect_list("entry").alias(OUTCOMES)
        )
        return merged.sortWithinPartitions(*_PLACE).select("record.*", *_PLACE, OUTCOMES)

    def _decoded(self, frame: DataFrame) -> DataFrame:
        """Add the decoded value as ``decoded``, and why it cannot be decoded."""
        return _with(frame, self._once("decoded", lambda: list(self._decoded_columns())))

    def _decoded_columns(self) -> Iterator[tuple[str, Column]]:
        text = F.col("value").cast("string")
        if self.codecs.decoding:
            yield "read", self.codecs.decoded()
            text, corrupt = F.col("read.json"), F.col("read.error")
        else:
            source = self.settings.sources[0]  # the formats of all are the same
            given = [name for name in ("key", "value") if getattr(source, name).format != "raw"]
            wrong = [F.when(~F.is_valid_utf8(name), f"the {name} is no UTF-8") for name in given]
            corrupt = F.coalesce(*wrong, F.lit(None).cast("string"))
        if self.schema is not None:
            wanted = StructType([*self.schema.fields]).add(_CORRUPT, "string")
            yield "decoded", F.from_json(text, wanted, {"columnNameOfCorruptRecord": _CORRUPT})
            unlike = F.col("decoded").isNull() | F.col(f"decoded.{_CORRUPT}").isNotNull()
            no_json = F.when(F.col("value").isNotNull() & unlike, "the value is no JSON of this schema")
            corrupt = F.coalesce(corrupt, no_json)
        yield _CORRUPT, corrupt

    def _given(self, decoded: DataFrame, *more: Column, bringing: bool = False) -> DataFrame:
        """Return what the function gets: ``_record`` and the columns of the value, and ``more``.

        ``bringing``: the place also has the record as it was read, and why it cannot be decoded.
        """
        found = self._once(("given", bringing), lambda: list(self._given_columns(bringing=bringing)))
        return decoded.select(*found, *more)

    def _given_columns(self, *, bringing: bool) -> Iterator[Column]:
        redelivered = F.col("topic").isin(ready_topics(self.settings))

        def either(of_redelivery: Column, of_source: Column) -> Column:
            return F.when(redelivered, of_redelivery).otherwise(of_source)

        here = F.concat("topic", F.lit("-"), "partition", F.lit("@"), "offset")
        yield F.struct(
            either(header_text(ORIG_MESSAGE_ID), here).alias("id"),
            either(header_text(ORIG_ADDRESS), F.col("topic")).alias("source"),
            either(F.coalesce(header_number(DELIVERY_COUNT, "int"), F.lit(0)) + 1, F.lit(1)).alias("attempt"),
            either(header_time(TIMESTAMP), F.timestamp_millis("timestamp")).alias("timestamp"),
            "key",
            "headers",
            F.struct(*_PLACE, *((*_BROUGHT, _CORRUPT) if bringing else ())).alias("place"),
        ).alias(RECORD)
        if self.schema is not None:
            yield from (F.col("decoded").getField(name).alias(name) for name in self.schema.names)
        else:
            text = self.settings.sources[0].value.format == "string"
            yield F.col("value").cast("string" if text else "binary").alias("value")

    def _result(self, given: DataFrame) -> DataFrame:
        """Apply the function.

        Raises:
            PipelineRefusedError: its result has not the columns that it needs.
        """
        from pyspark.sql import DataFrame  # noqa: PLC0415 - only a type elsewhere

        self._define_functions(given.sparkSession)
        result = self.function(given)
        name = getattr(self.function, "__name__", "the function")
        if not isinstance(result, DataFrame):
            raise PipelineRefusedError(f"{name} returned {type(result).__name__}: let it return a DataFrame")
        columns = {each.name: each.dataType for each in result.schema}
        if columns.get(RECORD) != given.schema[RECORD].dataType:
            raise PipelineRefusedError(
                f"the DataFrame that {name} returns has no column {RECORD} as it was given: keep it in each select, "
                "and do not aggregate over several records: each record has an outcome of its own"
            )
        found = columns.get(FAILURE, NullType())
        if found.simpleString() not in {FAILURE_TYPE, "void"}:
            raise PipelineRefusedError(
                f"{FAILURE} is of type {found.simpleString()}: make it of reject(...) and retry(...); null is success"
            )
        return result

    def _define_functions(self, spark: SparkSession) -> None:
        """Define ``reject(reason)`` and ``retry(reason)`` for SQL, once in each session."""
        session = spark._jsparkSession.sessionUUID()  # noqa: SLF001 - nothing public tells sessions apart
        if session in self._sessions:
            return
        for name, kind, exception in (
            ("reject", FailureKind.REJECTED, "Reject"),
            ("retry", FailureKind.REDELIVER, "Redeliver"),
        ):
            found = f"named_struct('kind', '{kind}', 'exception', '{exception}', 'message', reason, 'after_ms', null)"
            returns = f"RETURNS {FAILURE_TYPE} RETURN cast({found} AS {FAILURE_TYPE})"
            spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}(reason STRING) {returns}")
        self._sessions.add(session)

    def _outcomes(self, result: DataFrame, *, bringing: bool = False) -> DataFrame:
        """Return the place of the record of each row, and what the row means; see :meth:`_given` for ``bringing``."""
        names = result.columns
        purpose = "outcomes", bringing, *names
        added, selected = self._once(purpose, lambda: self._outcome_columns(names, bringing=bringing))
        return _with(result, added).select(*selected)

    def _outcome_columns(self, names: Sequence[str], *, bringing: bool) -> tuple[_Added, list[Column]]:
        """Return the columns to add to a result that has these, and those to select then."""
        added: _Added = []
        failed = F.col(FAILURE).cast(FAILURE_TYPE) if FAILURE in names else F.lit(None).cast(FAILURE_TYPE)
        if bringing:
            failed = F.coalesce(_undecodable(f"{RECORD}.place.{_CORRUPT}"), failed)
        key = F.col(f"{RECORD}.key") if self.key is None else self.key
        data = ["`{}`".format(each.replace("`", "``")) for each in names if each not in {RECORD, FAILURE}]
        sent = F.lit(self.computing.topic is not None and (self.value is not None or bool(data)))
        if self.sent is not None:
            sent &= F.coalesce(self.sent, F.lit(False))  # noqa: FBT003 - a value
        # Once for each row, since it may be drawn at random, and not of a failed one, for which it may raise.
        added.append((_SENT, F.when(failed.isNull(), sent).otherwise(F.lit(False))))  # noqa: FBT003 - a value
        sent = F.col(_SENT)
        value = F.lit(None) if self.value is None else self.value
        if self.value is None and data:
            value = F.to_json(F.struct(*data), _JSON)
        if self.codecs.encoding is not None and self.value is None and data:
            added.append((_ENCODED, self.codecs.encoded(F.when(sent, F.struct(*data)))))
            value, raised = F.col(f"{_ENCODED}.data"), F.col(f"{_ENCODED}.exception")
            unencoded = failure(FailureKind.RAISED, raised, F.col(f"{_ENCODED}.message"))
            failed = F.coalesce(failed, F.when(raised.isNotNull(), unencoded))
        entry = _entry(failed, sent, F.when(sent, key), F.when(sent, value))
        if bringing:
            brought = [F.col(f"{RECORD}.place.{name}").alias(name) for name in (*_BROUGHT, *_PLACE)]
            return added, [*brought, F.array(entry).alias(OUTCOMES)]
        lost = F.raise_error(F.lit(f"{RECORD} of a row is null: a join must keep the rows of the records"))
        place = [F.coalesce(F.col(f"{RECORD}.place.{each}"), lost).alias(each) for each in _PLACE]
        return added, [*place, entry.alias("entry")]

    def _once(self, purpose: object, make: Callable[[], _T]) -> _T:
        """Return what ``make`` returns, which is called once for each purpose."""
        if purpose not in self._made:
            self._made[purpose] = make()
        return cast("_T", self._made[purpose])


def _read_columns() -> list[Column]:
    nothing = F.lit(None)
    entry = F.when(F.col(_CORRUPT).isNotNull(), _entry(_undecodable(), F.lit(False), nothing, nothing))  # noqa: FBT003 - a value
    return [F.struct(*_BROUGHT).alias("record"), entry.alias("entry")]


def _with(frame: DataFrame, columns: _Added) -> DataFrame:
    for name, column in columns:
        frame = frame.withColumn(name, column)
    return frame


def _no_records(spark: SparkSession) -> DataFrame:
    """Return what an empty micro-batch has. ``createDataFrame`` of PySpark would make this session the active one."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 - only a type elsewhere

    java: Any = spark._jsparkSession  # noqa: SLF001 - as above
    schema = java.parseDataType(StructType.fromDDL(_READ).json())
    return DataFrame(java.createDataFrame(spark.sparkContext._jvm.java.util.ArrayList(), schema), spark)  # type: ignore[union-attr] # noqa: SLF001


_NOT_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
_NOT_IN_TABLES: Final = re.compile(r"interval|time\(")


def refuse_columns(columns: StructType) -> None:
    """Refuse columns that a Delta table cannot have, or that JSON cannot bring to it.

    Raises:
        PipelineRefusedError: there is one; names it, and the fix.
    """
    if (fault := next(_faults("", columns), None)) is not None:
        raise PipelineRefusedError(f"the table cannot have {fault}")


def _faults(name: str, kind: DataType) -> Iterator[str]:
    text = kind.simpleString()
    if isinstance(kind, StructType):
        for each in kind:
            path = f"{name}.{each.name}" if name else each.name
            if _NOT_IN_NAMES.intersection(each.name):
                yield f"column {path!r}: names are without spaces and ,;{{}}()= in Delta; rename it with alias(...)"
            yield from _faults(path, each.dataType)
    elif isinstance(kind, ArrayType):
        yield from _faults(f"{name}.element", kind.elementType)
    elif isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            fix = "F.transform_keys(..., lambda key, value: key.cast('string'))"
            yield f"column {name!r}: it is {text}, and keys in JSON are strings; convert them with {fix}"
        yield from _faults(f"{name}.value", kind.valueType)
    elif isinstance(kind, NullType):
        yield f"column {name!r}: it has no type; give it one, such as F.lit(None).cast('string')"
    elif _NOT_IN_TABLES.match(text):
        yield f"column {name!r}: it is {text}, which Delta has not; convert it with cast('string')"


_OVER_ROWS: Final = {
    "Aggregate": "groupingExpressions",
    "Window": "partitionSpec",
    "Deduplicate": "keys",
    "FlatMapGroupsInPandas": "groupingAttributes",
    "FlatMapGroupsInArrow": "groupingAttributes",
}
"""Operators of Spark's plans that make a row of several rows, and what says of which."""

_OF_ALL_ROWS: Final = {
    "GlobalLimit",
    "LocalLimit",
    "Offset",
    "Tail",
    "Sample",
    "Except",
    "Intersect",
    "FlatMapCoGroupsInPandas",
    "FlatMapCoGroupsInArrow",
    "FlatMapGroupsInPandasWithState",
    "TransformWithStateInPySpark",
}
_OF_THE_BEST: Final = ("AsOfJoin", "NearestByJoin")
"""Joins that choose among the rows on the right."""


def refuse_several_records(given: DataFrame, result: DataFrame) -> None:
    """Refuse a result whose rows depend on several records.

    There is no state between micro-batches, and which records are in one is left to chance. What joined tables are made
    of is not looked at, unless it is the records themselves. Neither is what plans hide, such as local checkpoints.

    Raises:
        PipelineRefusedError: an operator goes over rows of several records; names it.
    """
    leaves = [each for each in _below(_plan(given)) if each.children().isEmpty()]
    named: set[int] = set()

    def of_records(plan: Any) -> bool:  # noqa: ANN401 - an object of Java
        found = (each for each in _below(plan) if each.children().isEmpty())
        return any(
            each.cteId() in named if str(each.nodeName()) == "CTERelationRef" else any(map(each.sameResult, leaves))
            for each in found
        )

    for node in _below(_plan(result)):
        name = str(node.nodeName())
        keyed = name in _OVER_ROWS or name == "Join"
        if name == "CTERelationDef" and of_records(node):
            named.add(node.id())
        if any(map(of_records, _items(node.subqueries()))):
            name, several, keyed = "a subquery", True, False
        elif name == "Join":
            several = not _is_by_record(node) and all(map(of_records, _items(node.children())))
        elif name in _OF_THE_BEST:
            several = of_records(node.right())
        elif keyed:
            several = not any(map(_is_record, _items(getattr(node, _OVER_ROWS[name])()))) and of_records(node)
        else:
            several = name.removesuffix("All").rstrip() in _OF_ALL_ROWS and of_records(node)
        if several:
            fix = f", or group or join by {RECORD}, too, if rows of one record are meant" if keyed else ""
            raise PipelineRefusedError(
                f"the result of {name} depends on other records of the micro-batch, but each record has an outcome of "
                f"its own, and there is no state between micro-batches: do it in a query that reads the target{fix}"
            )


def keeps_rows(given: DataFrame, result: DataFrame) -> bool:
    """Whether a result only has computed columns: one row for each given one, in their order."""
    return None not in _between(given, result)


def calls_functions(given: DataFrame, result: DataFrame) -> bool:
    """Whether the columns of such a result call functions of users, or raise errors on purpose.

    Most of Spark's other functions return null for null.
    """

    def calls(expression: Any) -> bool:  # noqa: ANN401 - an object of Java
        name = str(expression.getClass().getSimpleName())
        return name == "RaiseError" or "UDF" in name or any(map(calls, _items(expression.children())))

    return any(calls(each) for node in _between(given, result) for each in _items(node.expressions()))


def _between(given: DataFrame, result: DataFrame) -> Iterator[Any]:
    """Yield the nodes that compute columns between two plans; last ``None``, if another one is between them.

    Spark makes joins of subqueries, which order rows anew.
    """
    start, node = _plan(given), _plan(result)
    while not node.equals(start):
        if str(node.nodeName()) not in {"Project", "SubqueryAlias"} or not node.subqueries().isEmpty():
            yield None
            return
        yield node
        node = node.children().apply(0)


def _plan(frame: DataFrame) -> Any:  # noqa: ANN401 - an object of Java
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - nothing public has it


def _below(node: Any) -> Iterator[Any]:  # noqa: ANN401 - as before
    """Yield a node of a plan, those below it, and those of its subqueries."""
    yield node
    for each in (*_items(node.children()), *_items(node.subqueries())):
        yield from _below(each)


def _items(sequence: Any) -> Iterator[Any]:  # noqa: ANN401 - as before
    return (sequence.apply(number) for number in range(sequence.size()))


def _is_record(expression: Any) -> bool:  # noqa: ANN401 - as before
    """Whether an expression is the column of the record, and not a field of it or another column."""
    return re.fullmatch(rf"{RECORD}#\d+", _text_of(expression)) is not None


def _is_by_record(join: Any) -> bool:  # noqa: ANN401 - as before
    """Whether a join only brings rows of one record together."""
    found = join.condition()
    parts = _items(join.splitConjunctivePredicates(found.get())) if found.isDefined() else ()
    return any(
        str(each.nodeName()) in {"EqualTo", "EqualNullSafe"} and all(map(_is_record, _items(each.children())))
        for each in parts
    )


def _text_of(of_java: Any) -> str:  # noqa: ANN401 - as before
    return str(of_java.toString())


def _undecodable(why: str = _CORRUPT) -> Column:
    """Return the failure of a record that cannot be decoded, null of others; ``why``: the column that says it."""
    return F.when(F.col(why).isNotNull(), failure(FailureKind.UNDECODABLE, "DecodeError", F.col(why)))


def _entry(failed: Column, sent: Column, key: Column, value: Column) -> Column:
    """Return an entry of the column ``outcomes``."""
    return F.struct(
        failed.alias("failure"),
        sent.alias("sent"),
        key.cast("binary").alias("key"),
        value.cast("binary").alias("value"),
    )
