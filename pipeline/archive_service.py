"""Runs of the archive, one after the other, with compaction between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import Final

from pyspark.sql import SparkSession

from consumers.clock import wall_clock_ms
from pipeline.archive import Archive, ArchiveRun, run_archive
from pipeline.compaction import Compacted, compact
from pipeline.lake_files import LakeFiles
from pipeline.table_format import TableFormat

_MANY: Final = 16
"""In a run that goes on, a folder is worth compacting when it has so many small files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveService:
    """One process that writes one table."""

    spark: SparkSession
    """Of :func:`pipeline.archive.archive_session`."""

    archive: Archive
    compact: bool = False
    grace: timedelta = timedelta(hours=1)
    """How long files that were put together stay, for who is still reading them."""

    skip_removed: bool = False

    def once(
        self, ended: Event, told: Callable[[ArchiveRun], None] = lambda _: None, *, least: int = 2
    ) -> tuple[ArchiveRun, Compacted | None]:
        """Archive what there is, then put small files together, where a folder has at least so many.

        Raises:
            PipelineError: as :func:`~pipeline.archive.run_archive` and :func:`~pipeline.compaction.compact`.
            TransportError: Kafka does not answer.
        """
        run = run_archive(self.spark, self.archive, skip_removed=self.skip_removed, told=told, ended=ended)
        return run, self._compact(least) if self.compact and not ended.is_set() else None

    def follow(self, every: timedelta, ended: Event) -> Iterator[tuple[ArchiveRun, Compacted | None]]:
        """Do that again and again until it is to end; gives each run that did something.

        Raises:
            PipelineError, TransportError: as :meth:`once`.
        """
        while not ended.is_set():
            run, compacted = self.once(ended, least=_MANY)
            if run.letters or run.removed or (compacted is not None and compacted != Compacted()):
                yield run, compacted
            ended.wait(every.total_seconds())

    def _compact(self, least: int) -> Compacted:
        files = LakeFiles(self.spark, self.archive.output)
        if self.archive.format is TableFormat.DELTA:
            return self._optimised() if files.names("_delta_log") else Compacted()
        return compact(
            self.spark, files, wall_clock_ms(), grace_ms=self.grace // timedelta(milliseconds=1), least=least
        )

    def _optimised(self) -> Compacted:
        """Delta does it itself. What it replaces stays until somebody calls its VACUUM."""
        path = self.archive.output.replace("`", "``")
        done = self.spark.sql(f"OPTIMIZE delta.`{path}`").select("metrics.*").collect()[0]
        return Compacted(done["partitionsOptimized"], done["numFilesRemoved"], done["numFilesAdded"])
