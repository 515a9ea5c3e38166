"""Rewrites files of an archive. Readers of Spark see the table before a rewrite or after it, nothing between.

Each rewrite takes these steps:

1. write the new files to a staging folder,
2. write down which files they replace,
3. move them into the folders of the table, where no log names them yet,
4. count the rows,
5. replace the last log file atomically.

A crash before step 5 leaves the table unchanged and unused new files. A crash after step 5 leaves unused old files. A
later run deletes unused files when they are older than the grace period, so that running readers can finish.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.archive.schema import PARTITION_COLUMNS
from kafka_redelivery.pipeline.errors import CompactionError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.sink_log import Entry, SinkLog, entry_of

TARGET_BYTES: Final = 128 * 2**20
"""The target size of a file."""

Folders: TypeAlias = dict[str, list[Entry]]
"""Log entries of files by the URI of their folder."""

_MAX_FILES: Final = 4000
_MAX_BYTES: Final = 4 * 2**30
_FOLDER: Final = "_compaction"
_STAGE: Final = f"{_FOLDER}/stage"
_REPLACED: Final = "replaced-"
_WRITERS: Final = 32
_ORDER: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Folders whose files are rewritten in one Spark job."""

    batch: int
    number: int
    folders: Folders
    target_bytes: int = TARGET_BYTES
    rows: Callable[[DataFrame], DataFrame] = lambda frame: frame
    """Returns the rows that the new files have, of those that the old ones have."""

    @property
    def replaced(self) -> list[str]:
        """The URIs of the files to replace."""
        return [str(entry["path"]) for entries in self.folders.values() for entry in entries]

    @property
    def files_per_folder(self) -> int:
        """The maximum number of new files per folder; more than one only if there is one folder."""
        largest = max(sum(map(size_of, entries)) for entries in self.folders.values())
        return -(-largest // self.target_bytes)


def rewrite(spark: SparkSession, files: LakeFiles, log: SinkLog, change: Rewrite) -> int:
    """Rewrite files; return the number of new files.

    Args:
        spark: a session of :func:`archive_session`.
        files: the table.
        log: its log.
        change: what to rewrite.

    Raises:
        CompactionError: the number of rows is not the expected one. The table is unchanged.
    """
    replaced = change.replaced
    wanted = change.rows(_read(spark, files, replaced))
    stage = f"{files.root}/{_STAGE}"
    _divided(wanted, change).write.partitionBy(*PARTITION_COLUMNS).option("compression", "zstd").parquet(stage)
    # A unique name: another rewrite of this micro-batch must not overwrite the file and its age.
    name = f"{_FOLDER}/{_REPLACED}{change.batch}-{change.number}-{secrets.token_hex(4)}"
    files.write(name, json.dumps(replaced))
    made = [_move_into_table(files, each.uri, change) for each in list(files.files(_STAGE))]
    rows, expected = _read(spark, files, made).count() if made else 0, wanted.count()
    if rows != expected:
        raise CompactionError(f"{expected} rows became {rows} below {files.root}; the table is unchanged")
    gone = set(replaced)
    # Read the log again to keep entries that were added meanwhile.
    kept = [entry for entry in log.entries(change.batch) if entry["path"] not in gone]
    log.replace(change.batch, [*kept, *(entry_of(files.file(uri)) for uri in made)])
    files.delete(_STAGE)
    return len(made)


def rewrites(folders: Mapping[str, list[Entry]], target_bytes: int) -> Iterator[Folders]:
    """Group folders into rewrites of limited size."""
    chosen: Folders = {}
    count = volume = 0
    for folder, each in sorted(folders.items()):
        size = sum(map(size_of, each))
        if size > target_bytes:
            yield {folder: each}  # it becomes several files, other folders become one each
            continue
        if chosen and (count + len(each) > _MAX_FILES or volume + size > _MAX_BYTES):
            yield chosen
            chosen, count, volume = {}, 0, 0
        chosen[folder] = each
        count, volume = count + len(each), volume + size
    if chosen:
        yield chosen


def by_folder(entries: Iterable[Entry]) -> Folders:
    """Return log entries by the folder of the file."""
    found: Folders = {}
    for entry in entries:
        found.setdefault(str(entry["path"]).rpartition("/")[0], []).append(entry)
    return found


def size_of(entry: Entry) -> int:
    """Return the size of a file in bytes."""
    return int(str(entry["size"]))


def refuse_object_stores(files: LakeFiles) -> None:
    """Refuse a file system on which readers might find no table during a rewrite.

    Raises:
        CompactionError: the file system cannot replace files atomically.
    """
    if not files.replaces_atomically:
        raise CompactionError(
            f"the file system {files.scheme} cannot replace a file atomically, so a reader might find no table; "
            "use --format delta there"
        )


def delete_unused(files: LakeFiles, log: SinkLog, now_ms: int, grace_ms: int) -> int:
    """Delete files that have not been in the log for longer than the grace period. Returns their number."""
    batch = log.latest()
    named = {str(entry["path"]) for entry in log.entries(batch)} if batch is not None else set()
    elsewhere = sorted(named - {file.uri for file in files.files()})
    if elsewhere:
        raise CompactionError(
            f"the log of the table {files.root} names files that do not exist there, such as {elsewhere[0]}: the "
            "table was moved, or its path is written differently; nothing was changed"
        )
    deleted = 0
    waiting: set[str] = set()
    for name in files.names(_FOLDER):
        if not name.startswith(_REPLACED):
            continue
        replaced = set(json.loads(files.read(f"{_FOLDER}/{name}"))) - named
        if files.file(f"{_FOLDER}/{name}").modified_ms > now_ms - grace_ms:
            waiting |= replaced
            continue
        for uri in replaced:
            files.delete(uri)
        files.delete(f"{_FOLDER}/{name}")
        deleted += len(replaced)
    for file in list(files.files()):
        # Files of an interrupted micro-batch or rewrite, or files that another process is writing now.
        if file.uri not in named | waiting and file.modified_ms <= now_ms - grace_ms:
            files.delete(file.uri)
            deleted += 1
    files.delete(_STAGE)
    return deleted


def _read(spark: SparkSession, files: LakeFiles, uris: Sequence[str]) -> DataFrame:
    """Read files with all their columns: an older version must keep the columns of a newer one."""
    return spark.read.option("basePath", files.root).option("mergeSchema", "true").parquet(*map(files.path, uris))


def _divided(rows: DataFrame, change: Rewrite) -> DataFrame:
    piece = F.pmod(F.xxhash64(*_ORDER), F.lit(change.files_per_folder))
    number = min(len(change.folders), _WRITERS) * change.files_per_folder
    return rows.repartition(number, *PARTITION_COLUMNS, piece).sortWithinPartitions(*PARTITION_COLUMNS, *_ORDER)


def _move_into_table(files: LakeFiles, staged: str, change: Rewrite) -> str:
    """Move a staged file into its folder, under a name that is unique among rewrites and micro-batches."""
    folder, _, part = staged.rpartition("/")
    target = folder.replace(f"/{_STAGE}/", "/", 1)
    return files.move(staged, f"{target}/compacted-{change.batch}-{change.number}-{part}")
