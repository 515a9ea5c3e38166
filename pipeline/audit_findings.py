"""The list of what is missing or doubled, with the places of its copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from consumers.journal import OUTCOMES
from pipeline.audit_result import Finding, Trace
from pipeline.audit_verdicts import FINDINGS
from pipeline.kafka_frames import ORIGIN

_MOST_TRACES: Final = 20
_TRACE: Final = ("topic", "partition", "offset", "kind", "deliveries", "finished")


def findings_of(records: DataFrame, copies: DataFrame) -> Iterator[Finding]:
    """Every finding, in the order of topic, partition, offset; held one partition of Spark's at a time.

    Args:
        records: of :func:`pipeline.audit_verdicts.verdicts`.
        copies: of :meth:`pipeline.audit_evidence.Evidence.attributed`.
    """
    found = records.where(F.col("state").isin(*FINDINGS)).select(*ORIGIN, "state", "why", "told")
    origin = [f"origin_{name}" for name in ORIGIN]
    newest = Window.partitionBy(*origin).orderBy(F.desc("at_ms"), "topic", "partition", "offset")
    traces = (
        copies.join(found.select(*(F.col(name).alias(f"origin_{name}") for name in ORIGIN)), origin, "left_semi")
        .withColumn("number", F.row_number().over(newest))
        .where(F.col("number") <= _MOST_TRACES)
        .groupBy(*(F.col(f"origin_{name}").alias(name) for name in ORIGIN))
        .agg(F.sort_array(F.collect_list(F.struct("number", *_TRACE))).alias("traces"))
    )
    rows = found.join(traces, list(ORIGIN), "left").orderBy(*ORIGIN).toLocalIterator()
    return (_finding(row) for row in rows)


def write(findings: Iterator[Finding], path: Path, listed: int) -> list[Finding]:
    """Write one JSON object a line.

    Returns:
        the first ``listed`` of them.

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
        journal={name: row["told"][name] for name in OUTCOMES if row["told"][name]},
        traces=tuple(Trace(**{name: trace[name] for name in _TRACE}) for trace in row["traces"] or ()),
    )
