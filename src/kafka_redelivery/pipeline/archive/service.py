"""Runs the archive repeatedly, with compaction after each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import Final

from pyspark.sql import SparkSession

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.pipeline.archive.archive import Archive, ArchiveRun, run_archive
from kafka_redelivery.pipeline.archive.delta_table import CompactionResult, optimize
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import is_delta

_MIN_FILES_FOLLOWING: Final = 16
"""With ``follow``, a folder is compacted when it has this many small files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveService:
    """Writes and compacts one table."""

    spark: SparkSession
    """A session of :func:`archive_session`."""

    archive: Archive
    compact: bool = False
    skip_removed: bool = False

    def once(
        self, stop: Event, on_progress: Callable[[ArchiveRun], None] = lambda _: None, *, min_files: int = 2
    ) -> tuple[ArchiveRun, CompactionResult | None]:
        """Archive the dead letters that exist now, then compact folders with at least ``min_files`` small files.

        Raises:
            PipelineError: see :func:`run_archive`.
            TransportError: Kafka does not answer.
        """
        run = run_archive(self.spark, self.archive, skip_removed=self.skip_removed, on_progress=on_progress, stop=stop)
        return run, self._compact(min_files) if self.compact and not stop.is_set() else None

    def follow(self, every: timedelta, stop: Event) -> Iterator[tuple[ArchiveRun, CompactionResult | None]]:
        """Repeat :meth:`once` until ``stop`` is set, and yield the runs that changed something.

        Raises:
            PipelineError, TransportError: see :meth:`once`.
        """
        while not stop.is_set():
            run, compacted = self.once(stop, min_files=_MIN_FILES_FOLLOWING)
            if run.letters or run.removed or (compacted is not None and compacted != CompactionResult()):
                yield run, compacted
            stop.wait(every.total_seconds())

    def _compact(self, min_files: int) -> CompactionResult:
        files = LakeFiles(self.spark, self.archive.output)
        if not is_delta(files):
            return CompactionResult()
        return optimize(self.spark, files, wall_clock_ms(), min_files=min_files)
