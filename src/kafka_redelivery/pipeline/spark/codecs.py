"""Codecs in the Python workers of Spark, and functions of Arrow columns that use them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.pipeline.spark.schema_files import SchemaFiles
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.topology.config.settings import CodecSection

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@lru_cache
def codecs_here(section: str, base: str, schemas: SchemaFiles) -> tuple[Codec, Codec]:
    """Create the codecs of a topic, once in each Python worker.

    Args:
        section: its :class:`CodecSection` as JSON.
        base: the folder of the configuration on the driver.
        schemas: for executors that do not have it.

    Raises:
        SerdeError: a schema cannot be read, or settings contradict each other.
    """
    return codecs(CodecSection.model_validate_json(section), schemas.folder(Path(base)))


def arrow_function(function: Callable[..., Any], returns: DataType | str) -> Callable[..., Column]:
    """Return a function of Arrow arrays, which returns one, as a function of columns."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    made: Callable[..., Column] = F.arrow_udf(function, returns)  # type: ignore[attr-defined]  # not in its stubs
    return made
