"""Lists missing and doubled records with the locations of their copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from kafka_redelivery.pipeline.audit.result import Finding, RecordCopy
from kafka_redelivery.pipeline.audit.states import FINDINGS
from kafka_redelivery.pipeline.frames.kafka_frames import ORIGIN
from kafka_redelivery.topology.wire.journal import OUTCOMES

_MAX_COPIES: Final = 20
_COPY_FIELDS: Final = ("topic", "partition", "offset", "kind", "deliveries", "finished")


def findings_of(records: DataFrame, copies: DataFrame) -> Iterator[Finding]:
    """Iterate over all findings by topic, partition and offset. Holds one Spark partition in memory at a time.

    Args:
        records: the result of :func:`record_states`.
        copies: the result of :meth:`TopicFrames.attributed`.
    """
    found = records.where(F.col("state").isin(*FINDINGS)).select(*ORIGIN, "state", "why", "journal")
    origin = [f"origin_{name}" for name in ORIGIN]
    newest = Window.partitionBy(*origin).orderBy(F.desc("at_ms"), "topic", "partition", "offset")
    copies = (
        copies.join(found.select(*(F.col(name).alias(f"origin_{name}") for name in ORIGIN)), origin, "left_semi")
        .withColumn("number", F.row_number().over(newest))
        .where(F.col("number") <= _MAX_COPIES)
        .groupBy(*(F.col(f"origin_{name}").alias(name) for name in ORIGIN))
        .agg(F.sort_array(F.collect_list(F.struct("number", *_COPY_FIELDS))).alias("copies"))
    )
    rows = found.join(copies, list(ORIGIN), "left").orderBy(*ORIGIN).toLocalIterator()
    return (_finding(row) for row in rows)


def write(findings: Iterator[Finding], path: Path, listed: int) -> list[Finding]:
    """Write all findings, one JSON object per line.

    Returns:
        the first ``listed`` findings.

    Raises:
        OSError: the file cannot be written.
    """
    first: list[Finding] = []
    with path.open("w", encoding="utf-8") as file:
        for finding in findings:
            if len(first) < listed:
                first.append(finding)
            file.write(json.dumps(finding.document(), ensure_ascii=False) + "\n")
    return first


def _finding(row: Row) -> Finding:
    return Finding(
        state=row["state"],
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        why=row["why"],
        journal={name: row["journal"][name] for name in OUTCOMES if row["journal"][name]},
        copies=tuple(RecordCopy(**{name: copy[name] for name in _COPY_FIELDS}) for copy in row["copies"] or ()),
    )
