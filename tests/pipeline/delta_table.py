"""Reads and changes the log of a Delta table."""

import json
from pathlib import Path

from pyspark.sql import SparkSession


def files(table: Path) -> list[Path]:
    """The data files of the table; none before there is a log."""
    found: dict[str, Path] = {}
    for log in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
            if "add" in action:
                found[action["add"]["path"]] = table / action["add"]["path"]
            elif "remove" in action:
                del found[action["remove"]["path"]]
    return list(found.values())


def remove_column(table: Path, name: str) -> None:
    """Remove a column from the schema of a Delta table, as if an earlier version had made the table."""
    for log in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for action in actions:
            if "metaData" in action:
                schema = json.loads(action["metaData"]["schemaString"])
                schema["fields"] = [each for each in schema["fields"] if each["name"] != name]
                action["metaData"]["schemaString"] = json.dumps(schema)
        log.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    for checksum in (table / "_delta_log").glob("*.crc"):  # those of Delta and of Hadoop, hidden ones included
        checksum.unlink()


def forget_delta(session: SparkSession) -> None:
    """Let Delta read the logs of all tables again."""
    session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]  # of the JVM
