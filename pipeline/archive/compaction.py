"""Compaction: merges the small files of an archive. Readers of Spark never miss a row or see one twice.

Each rewrite takes these steps:

1. write the merged files to a staging folder,
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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.archive.schema import PARTITION_COLUMNS
from kafka_redelivery.pipeline.errors import CompactionError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.sink_log import Entry, SinkLog, entry_of

TARGET_BYTES: Final = 128 * 2**20
"""The target size of a file. A file of less than half of it is small."""

GRACE_MS: Final = 3_600_000
"""The default grace period: how long a reader may take."""

_MAX_FILES: Final = 4000
_MAX_BYTES: Final = 4 * 2**30
_FOLDER: Final = "_compaction"
_STAGE: Final = f"{_FOLDER}/stage"
_REPLACED: Final = "replaced-"
_WRITERS: Final = 32
_ORDER: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction."""

    folders: int = 0
    """Folders of the table whose files were merged."""

    before: int = 0
    """Small files before."""

    after: int = 0
    """Files that replaced them."""

    deleted: int = 0
    """Unused files of earlier runs that were deleted."""

    def __add__(self, other: CompactionResult) -> CompactionResult:
        """Add up two results."""
        return CompactionResult(
            self.folders + other.folders,
            self.before + other.before,
            self.after + other.after,
            self.deleted + other.deleted,
        )


def compact(
    spark: SparkSession,
    files: LakeFiles,
    now_ms: int,
    *,
    grace_ms: int = GRACE_MS,
    target_bytes: int = TARGET_BYTES,
    min_files: int = 2,
    on_progress: Callable[[CompactionResult], None] = lambda _: None,
) -> CompactionResult:
    """Merge the small files of a Parquet table.

    Args:
        spark: a session of :func:`archive_session`.
        files: the table.
        now_ms: epoch ms.
        grace_ms: how long unused files stay for running readers.
        target_bytes: target size of a file.
        min_files: folders with fewer small files are skipped.
        on_progress: called after each rewrite.

    Raises:
        CompactionError: the file system cannot replace files atomically, the table was moved, or the number of rows
            changed. The table is unchanged.
        TableLogError: the log is not one that the archive writes.
    """
    if not files.replaces_atomically:
        raise CompactionError(
            f"the file system {files.scheme} cannot replace a file atomically, so a reader might find no table; "
            "use --format delta there"
        )
    log = SinkLog(files)
    done = CompactionResult(deleted=_delete_unused(files, log, now_ms, grace_ms))
    files.delete(_STAGE)
    batch = log.latest()
    if batch is None:
        return done
    for number, chosen in enumerate(_rewrites(log.entries(batch), target_bytes, min_files)):
        done += _rewrite(spark, files, log, _Rewrite(batch, number, chosen, target_bytes))
        on_progress(done)
    return done


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Folders whose small files are merged in one Spark job."""

    batch: int
    number: int
    folders: dict[str, list[Entry]]
    target_bytes: int

    @property
    def replaced(self) -> list[str]:
        """The URIs of the files to replace."""
        return [str(entry["path"]) for entries in self.folders.values() for entry in entries]

    @property
    def files_per_folder(self) -> int:
        """The number of merged files per folder; more than one only if there is one folder."""
        largest = max(sum(map(_size, entries)) for entries in self.folders.values())
        return -(-largest // self.target_bytes)


def _rewrite(spark: SparkSession, files: LakeFiles, log: SinkLog, rewrite: _Rewrite) -> CompactionResult:
    replaced = rewrite.replaced
    old = _read(spark, files, replaced)
    stage = f"{files.root}/{_STAGE}"
    _merged(old, rewrite).write.partitionBy(*PARTITION_COLUMNS).option("compression", "zstd").parquet(stage)
    # A unique name: another compaction of this micro-batch must not overwrite the file and its age.
    name = f"{_FOLDER}/{_REPLACED}{rewrite.batch}-{rewrite.number}-{secrets.token_hex(4)}"
    files.write(name, json.dumps(replaced))
    made = [_move_into_table(files, each.uri, rewrite) for each in list(files.files(_STAGE))]
    rows, expected = _read(spark, files, made).count(), old.count()
    if rows != expected:
        raise CompactionError(f"{expected} rows became {rows} below {files.root}; the table is unchanged")
    gone = set(replaced)
    # Read the log again to keep entries that were added meanwhile.
    kept = [entry for entry in log.entries(rewrite.batch) if entry["path"] not in gone]
    log.replace(rewrite.batch, [*kept, *(entry_of(files.file(uri)) for uri in made)])
    files.delete(_STAGE)
    return CompactionResult(len(rewrite.folders), len(replaced), len(made))


def _read(spark: SparkSession, files: LakeFiles, uris: Sequence[str]) -> DataFrame:
    """Read files with all their columns: an older version must keep the columns of a newer one."""
    return spark.read.option("basePath", files.root).option("mergeSchema", "true").parquet(*map(files.path, uris))


def _merged(old: DataFrame, rewrite: _Rewrite) -> DataFrame:
    piece = F.pmod(F.xxhash64(*_ORDER), F.lit(rewrite.files_per_folder))
    number = min(len(rewrite.folders), _WRITERS) * rewrite.files_per_folder
    return old.repartition(number, *PARTITION_COLUMNS, piece).sortWithinPartitions(*PARTITION_COLUMNS, *_ORDER)


def _move_into_table(files: LakeFiles, staged: str, rewrite: _Rewrite) -> str:
    """Move a staged file into its folder, under a name that is unique among rewrites and micro-batches."""
    folder, _, part = staged.rpartition("/")
    target = folder.replace(f"/{_STAGE}/", "/", 1)
    return files.move(staged, f"{target}/compacted-{rewrite.batch}-{rewrite.number}-{part}")


def _rewrites(entries: Iterable[Entry], target_bytes: int, min_files: int) -> Iterator[dict[str, list[Entry]]]:
    """Group folders with enough small files into rewrites of limited size."""
    small: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if _size(entry) < target_bytes // 2:
            small[str(entry["path"]).rpartition("/")[0]].append(entry)
    chosen: dict[str, list[Entry]] = {}
    count = volume = 0
    for folder, each in sorted(small.items()):
        if len(each) < min_files:
            continue
        size = sum(map(_size, each))
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


def _delete_unused(files: LakeFiles, log: SinkLog, now_ms: int, grace_ms: int) -> int:
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
        # Files of an interrupted micro-batch or compaction, or files that another process is writing now.
        if file.uri not in named | waiting and file.modified_ms <= now_ms - grace_ms:
            files.delete(file.uri)
            deleted += 1
    return deleted


def _size(entry: Entry) -> int:
    return int(str(entry["size"]))
