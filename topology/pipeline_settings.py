"""The part of the configuration that only the jobs on Spark read."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from topology.section import Duration, Section


class SinkSection(Section):
    """A table that takes what handlers send to one topic."""

    topic: str = Field(min_length=1, description="the outcome topic: what handlers send there is appended to the table")
    path: str = Field(min_length=1, description="of the table; relative ones are taken from the configuration's folder")
    format: Literal["parquet", "delta"] = Field("parquet", description="of the table")
    trigger: Duration = Field(timedelta(seconds=10), description="from one append to the next")
    partition_by: tuple[str, ...] = Field(("day",), description="columns of the table")


class PipelineSection(Section):
    """The streaming query of ``redelivery pipeline stream``."""

    checkpoint: str = Field(
        min_length=1, description="folder of the query's own progress; relative ones from the configuration's folder"
    )
    trigger: Duration = Field(timedelta(0), description="from one micro-batch to the next; 0s = without a pause")
    max_offsets_per_trigger: int = Field(
        100_000, ge=1, description="most offsets of one micro-batch; as many again from ready topics"
    )
    sink: SinkSection | None = Field(None, description="absent = handlers' outputs are in Kafka alone")
    spark: dict[str, str | int | float | bool] = Field({}, description="Spark's own settings, by their own names")
