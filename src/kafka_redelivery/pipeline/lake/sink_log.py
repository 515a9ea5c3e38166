"""The log of a table that Spark's file sink writes. Only the files in the log belong to the table.

The folder ``_spark_metadata`` has one log file for each micro-batch: a line with the version, then one JSON object for
each data file. With a compact interval of 1, each log file is called ``N.compact`` and lists the whole table; readers
take the one with the highest number. Source: ``FileStreamSinkLog`` and ``CompactibleFileStreamLog`` of Spark 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeAlias

from kafka_redelivery.pipeline.errors import TableLogError
from kafka_redelivery.pipeline.lake.files import LakeFile, LakeFiles

Entry: TypeAlias = dict[str, object]
"""The log entry of one data file; ``path`` is its URI."""

_FOLDER: Final = "_spark_metadata"
_NEXT: Final = "_compaction/next"
_VERSION: Final = "v1"
_COMPACT: Final = ".compact"


class SinkLog:
    """The log of one table."""

    def __init__(self, files: LakeFiles) -> None:
        self._files = files

    def latest(self) -> int | None:
        """Return the last micro-batch of the table, ``None`` if the table is empty.

        Raises:
            TableLogError: a log file does not list the whole table.
        """
        names = {name for name in self._files.names(_FOLDER) if not name.startswith(".")}
        numbers = [int(name.removesuffix(_COMPACT)) for name in names if name.removesuffix(_COMPACT).isdigit()]
        if not numbers:
            return None
        last = max(numbers)
        if f"{last}{_COMPACT}" not in names:
            raise TableLogError(f"{self._files.root}/{_FOLDER}/{last}", "does not list the whole table")
        return last

    def entries(self, batch: int) -> list[Entry]:
        """Return the table's files after a micro-batch.

        Raises:
            TableLogError: the log has an unknown version.
        """
        name = self._name(batch)
        version, *lines = self._files.read(name).splitlines()
        if version != _VERSION:
            raise TableLogError(f"{self._files.root}/{name}", f"has the version {version!r}, not {_VERSION}")
        return [json.loads(line) for line in lines]

    def replace(self, batch: int, entries: Iterable[Entry]) -> None:
        """Replace the table's files after its last micro-batch. Atomic for readers and after a crash."""
        lines = [_VERSION, *(json.dumps(entry, separators=(",", ":")) for entry in entries)]
        self._files.write(_NEXT, "\n".join(lines))
        self._files.replace(_NEXT, self._name(batch))

    def _name(self, batch: int) -> str:
        return f"{_FOLDER}/{batch}{_COMPACT}"


def entry_of(file: LakeFile) -> Entry:
    """Return the log entry of a file."""
    return {
        "path": file.uri,
        "size": file.size,
        "isDir": False,
        "modificationTime": file.modified_ms,
        "blockReplication": file.replication,
        "blockSize": file.block_size,
        "action": "add",
    }
