"""Compaction: merges the small files of an archive. Readers of Spark never miss a row or see one twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.archive.rewriting import (
    TARGET_BYTES,
    Folders,
    Rewrite,
    by_folder,
    delete_unused,
    refuse_object_stores,
    rewrite,
    rewrites,
    size_of,
)
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.sink_log import Entry, SinkLog

GRACE_MS: Final = 3_600_000
"""The default grace period: how long a reader may take."""


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
        target_bytes: target size of a file. A file of less than half of it is small.
        min_files: folders with fewer small files are skipped.
        on_progress: called after each rewrite.

    Raises:
        CompactionError: the file system cannot replace files atomically, the table was moved, or the number of rows
            changed. The table is unchanged.
        TableLogError: the log is not one that the archive writes.
    """
    refuse_object_stores(files)
    log = SinkLog(files)
    done = CompactionResult(deleted=delete_unused(files, log, now_ms, grace_ms))
    batch = log.latest()
    if batch is None:
        return done
    small = _small_files(log.entries(batch), target_bytes, min_files)
    for number, folders in enumerate(rewrites(small, target_bytes)):
        change = Rewrite(batch, number, folders, target_bytes)
        made = rewrite(spark, files, log, change)
        done += CompactionResult(len(folders), len(change.replaced), made)
        on_progress(done)
    return done


def _small_files(entries: Iterable[Entry], target_bytes: int, min_files: int) -> Folders:
    """Return the small files of the folders with enough of them."""
    small = by_folder(entry for entry in entries if size_of(entry) < target_bytes // 2)
    return {folder: each for folder, each in small.items() if len(each) >= min_files}
