"""The log of a table that Spark's file sink writes: it alone says which files are the table.

Source: ``FileStreamSinkLog`` and ``CompactibleFileStreamLog`` of Spark 4.2. One file for each batch in
``_spark_metadata``: a line with the version, then one JSON object for each data file. With a compact interval of 1 each
holds the whole table and is called ``N.compact``; a reader takes the one with the highest number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeAlias

from pipeline.archive_errors import TableLogError
from pipeline.lake_files import LakeFile, LakeFiles

Entry: TypeAlias = dict[str, object]
"""What the log says of one data file; ``path`` is its URI."""

_FOLDER: Final = "_spark_metadata"
_NEXT: Final = "_compaction/next"
_VERSION: Final = "v1"
_WHOLE: Final = ".compact"


class SinkLog:
    """The log of one table."""

    def __init__(self, files: LakeFiles) -> None:
        self._files = files

    def latest(self) -> int | None:
        """The batch that the table ends with, ``None`` if there is none yet.

        Raises:
            TableLogError: the log is not one that holds the whole table in each file.
        """
        whole = {name for name in self._files.names(_FOLDER) if not name.startswith(".")}
        numbers = [int(name.removesuffix(_WHOLE)) for name in whole if name.removesuffix(_WHOLE).isdigit()]
        if not numbers:
            return None
        last = max(numbers)
        if f"{last}{_WHOLE}" not in whole:
            raise TableLogError(f"{self._files.root}/{_FOLDER}/{last}", "does not hold the whole table")
        return last

    def entries(self, batch: int) -> list[Entry]:
        """The table's files after a batch.

        Raises:
            TableLogError: the log is of a version that we do not know.
        """
        name = self._name(batch)
        version, *lines = self._files.read(name).splitlines()
        if version != _VERSION:
            raise TableLogError(f"{self._files.root}/{name}", f"has the version {version!r}, not {_VERSION}")
        return [json.loads(line) for line in lines]

    def replace(self, batch: int, entries: Iterable[Entry]) -> None:
        """Say anew what the table is after its latest batch: at once, for readers and after a crash."""
        lines = [_VERSION, *(json.dumps(entry, separators=(",", ":")) for entry in entries)]
        self._files.write(_NEXT, "\n".join(lines))
        self._files.replace(_NEXT, self._name(batch))

    def _name(self, batch: int) -> str:
        return f"{_FOLDER}/{batch}{_WHOLE}"


def entry_of(file: LakeFile) -> Entry:
    """What the log says of a file."""
    return {
        "path": file.uri,
        "size": file.size,
        "isDir": False,
        "modificationTime": file.modified_ms,
        "blockReplication": file.replication,
        "blockSize": file.block_size,
        "action": "add",
    }
