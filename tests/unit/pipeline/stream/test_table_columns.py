"""Columns that a table can never have are refused at the start: records would be acknowledged, and no row appended."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    DoubleType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructType,
)

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.stream.transformation import refuse_columns

_OF_NUMBERS = MapType(IntegerType(), StringType())


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (StructType().add("note", NullType()), r"column 'note': it has no type; give it one"),
        (StructType().add("notes", ArrayType(NullType())), r"column 'notes\.element': it has no type"),
        (StructType().add("by_n", _OF_NUMBERS), r"column 'by_n': it is map<int,string>.*transform_keys"),
        (
            StructType().add("all", MapType(StringType(), ArrayType(_OF_NUMBERS))),
            r"column 'all\.value\.element': it is map<int,string>",
        ),
        (StructType().add("order total", DoubleType()), r"column 'order total': .*; rename it with alias"),
        (StructType().add("a", StructType().add("b=c", DoubleType())), r"column 'a\.b=c'"),
        (StructType().add("took", DayTimeIntervalType()), r"column 'took': it is interval .*cast\('string'\)"),
    ],
)
def test_the_column_and_the_fix_are_named(columns: StructType, text: str) -> None:
    """Also of a column inside another one."""
    with pytest.raises(PipelineRefusedError, match=f"the table cannot have {text}"):
        refuse_columns(columns.add("n", IntegerType()))


def test_other_columns_are_not_refused() -> None:
    """A dot, an umlaut and a hyphen are no hindrance."""
    inner = StructType().add("local.at", StringType()).add("gr\u00f6\u00dfe-x", DoubleType())
    refuse_columns(StructType().add("all", ArrayType(inner)).add("by_name", MapType(StringType(), inner)))
