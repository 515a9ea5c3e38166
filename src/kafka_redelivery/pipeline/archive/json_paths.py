"""What is at a path in a JSON text, as DuckDB says it: in Spark, too.

Engines read JSON differently: numbers such as 1.0 and 1e3, duplicate names, what comes after the end. So DuckDB reads
it in both, here in batches in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

if TYPE_CHECKING:
    import duckdb


def at_json_path(text: Column, path: str) -> Column:
    """Return the text at a path, null if there is none or the text is not JSON.

    Args:
        text: JSON texts.
        path: a path of :class:`JsonPath`.
    """

    def at_path(texts: pa.Array) -> pa.Array:
        opened = _duckdb()
        opened.register("texts", pa.table({"text": texts}))
        found = opened.sql("SELECT json_extract_string(TRY_CAST(text AS JSON), ?) AS found FROM texts", params=[path])
        return found.to_arrow_table()["found"].combine_chunks().cast(pa.string())

    made: Callable[[Column], Column] = F.arrow_udf(at_path, StringType())  # type: ignore[attr-defined]  # not in its stubs
    return made(text)


@lru_cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """Open a database in memory once in each Python worker."""
    import duckdb  # noqa: PLC0415 - where the workers need it

    return duckdb.connect(config={"threads": 1})
