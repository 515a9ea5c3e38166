"""The section of the configuration that only the Spark jobs read."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from kafka_redelivery.topology.config.section import Duration, Section


class SinkSection(Section):
    """A table that receives what handlers emit to one topic."""

    topic: str = Field(min_length=1, description="Outcome topic: what handlers emit to it is appended to the table.")
    path: str = Field(min_length=1, description="Path of the table, relative to the configuration file's folder.")
    trigger: Duration = Field(timedelta(minutes=1), description="Time from one append to the next.")
    files: int = Field(
        1, ge=1, description="Maximum number of tasks of an append: each writes one file for each folder of the table."
    )
    partition_by: tuple[str, ...] = Field(("day",), description="Columns that partition the table.")


class PipelineSection(Section):
    """The streaming query that ``redelivery pipeline stream`` runs."""

    checkpoint: str = Field(
        min_length=1, description="Folder of the query's checkpoint, relative to the configuration file's folder."
    )
    trigger: Duration = Field(
        timedelta(0), description="Time from one micro-batch to the next; 0s: the next one starts immediately."
    )
    max_offsets_per_trigger: int = Field(
        100_000,
        ge=1,
        description="Maximum number of offsets per micro-batch: of the sources, the ready topics and the sink each.",
    )
    scheduler: Literal["process", "driver"] = Field(
        "process",
        description="Where the group's scheduler runs: in a process of its own, or in a thread of the driver.",
    )
    sink: SinkSection | None = Field(None, description="Absent: what handlers emit is only in Kafka.")
    spark: dict[str, str | int | float | bool] = Field(
        {}, repr=False, description="Spark's settings, under Spark's names."
    )
