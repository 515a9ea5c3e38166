"""Puts the small files of an archive together, without a moment in which a reader of Spark misses or doubles a row.

In this order: rewrite the small files of a round beside the table; note which ones they replace; move the new ones into
the table's folders, where no log names them yet; count; put a new log in the place of the latest one, in one step.
Whatever is killed before leaves files that nobody reads, and the table as it was; whatever is killed after, files that
nobody reads any more. Both are deleted by a later run, once they are older than readers that may still be at them.
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

from pipeline.archive_errors import CompactionError
from pipeline.archive_schema import PARTITION_COLUMNS
from pipeline.lake_files import LakeFiles
from pipeline.sink_log import Entry, SinkLog, entry_of

TARGET_BYTES: Final = 128 * 2**20
"""As large a file should be: a file of less than half is small."""

GRACE_MS: Final = 3_600_000
"""So long a reader may take that has seen the table before."""

_ROUND_FILES: Final = 4000
_ROUND_BYTES: Final = 4 * 2**30
_FOLDER: Final = "_compaction"
_STAGE: Final = f"{_FOLDER}/stage"
_REPLACED: Final = "replaced-"
_WRITERS: Final = 32
_ORDER: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    folders: int = 0
    """Of the table, in which files were put together."""

    before: int = 0
    """Files in them that were small."""

    after: int = 0
    """Files that took their place."""

    deleted: int = 0
    """Files of earlier runs that nobody reads any more."""

    def __add__(self, other: Compacted) -> Compacted:
        """Both together."""
        return Compacted(
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
    least: int = 2,
    told: Callable[[Compacted], None] = lambda _: None,
) -> Compacted:
    """Put the small files of a table of Parquet together.

    Args:
        spark: of :func:`pipeline.archive.archive_session`.
        files: the table.
        now_ms: epoch ms.
        grace_ms: how long files stay after nobody begins to read them any more.
        target_bytes: as large files should become.
        least: folders with fewer small files are left as they are.
        told: called after each round.

    Raises:
        CompactionError: this file system cannot do it, the table was moved, or rows went missing; it is as it was.
        TableLogError: the table's log is not what an archive writes.
    """
    if not files.replaces_at_once:
        raise CompactionError(
            f"files of {files.scheme} cannot take one another's place in one step, so a reader might find no table; "
            "use --format delta there"
        )
    log = SinkLog(files)
    done = Compacted(deleted=_delete_unread(files, log, now_ms, grace_ms))
    files.delete(_STAGE)
    batch = log.latest()
    if batch is None:
        return done
    for number, chosen in enumerate(_rounds(log.entries(batch), target_bytes, least)):
        done += _round(spark, files, log, _Round(batch, number, chosen, target_bytes))
        told(done)
    return done


@dataclass(frozen=True, slots=True)
class _Round:
    """Folders whose small files are put together at once."""

    batch: int
    number: int
    folders: dict[str, list[Entry]]
    target_bytes: int

    @property
    def replaced(self) -> list[str]:
        """The files that go."""
        return [str(entry["path"]) for entries in self.folders.values() for entry in entries]

    @property
    def pieces(self) -> int:
        """How many files each folder is to have; more than one only if there is only one folder."""
        most = max(sum(map(_size, entries)) for entries in self.folders.values())
        return -(-most // self.target_bytes)


def _round(spark: SparkSession, files: LakeFiles, log: SinkLog, given: _Round) -> Compacted:
    replaced = given.replaced
    old = _read(spark, files, replaced)
    stage = f"{files.root}/{_STAGE}"
    _in_few_files(old, given).write.partitionBy(*PARTITION_COLUMNS).option("compression", "zstd").parquet(stage)
    # A name of its own: another compaction of this batch must not take the place of its grace.
    name = f"{_FOLDER}/{_REPLACED}{given.batch}-{given.number}-{secrets.token_hex(4)}"
    files.write(name, json.dumps(replaced))
    made = [_into_table(files, each.uri, given) for each in list(files.files(_STAGE))]
    rows, expected = _read(spark, files, made).count(), old.count()
    if rows != expected:
        raise CompactionError(f"{expected} rows became {rows} below {files.root}; the table is as it was")
    gone = set(replaced)
    # Read again: what came meanwhile stays.
    kept = [entry for entry in log.entries(given.batch) if entry["path"] not in gone]
    log.replace(given.batch, [*kept, *(entry_of(files.file(uri)) for uri in made)])
    files.delete(_STAGE)
    return Compacted(len(given.folders), len(replaced), len(made))


def _read(spark: SparkSession, files: LakeFiles, uris: Sequence[str]) -> DataFrame:
    """Whatever columns the files have: an older program must not lose those of a newer one."""
    return spark.read.option("basePath", files.root).option("mergeSchema", "true").parquet(*map(files.path, uris))


def _in_few_files(old: DataFrame, given: _Round) -> DataFrame:
    piece = F.pmod(F.xxhash64(*_ORDER), F.lit(given.pieces))
    together = old.repartition(min(len(given.folders), _WRITERS) * given.pieces, *PARTITION_COLUMNS, piece)
    return together.sortWithinPartitions(*PARTITION_COLUMNS, *_ORDER)


def _into_table(files: LakeFiles, staged: str, given: _Round) -> str:
    """Move a new file into its folder; its name is one that no other round and no batch has given."""
    folder, _, part = staged.rpartition("/")
    target = folder.replace(f"/{_STAGE}/", "/", 1)
    return files.move(staged, f"{target}/compacted-{given.batch}-{given.number}-{part}")


def _rounds(entries: Iterable[Entry], target_bytes: int, least: int) -> Iterator[dict[str, list[Entry]]]:
    """The folders with enough small files, as many at once as one round can take."""
    small: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if _size(entry) < target_bytes // 2:
            small[str(entry["path"]).rpartition("/")[0]].append(entry)
    chosen: dict[str, list[Entry]] = {}
    count = volume = 0
    for folder, each in sorted(small.items()):
        if len(each) < least:
            continue
        size = sum(map(_size, each))
        if size > target_bytes:
            yield {folder: each}  # more than one file is made of it, and of others only one
            continue
        if chosen and (count + len(each) > _ROUND_FILES or volume + size > _ROUND_BYTES):
            yield chosen
            chosen, count, volume = {}, 0, 0
        chosen[folder] = each
        count, volume = count + len(each), volume + size
    if chosen:
        yield chosen


def _delete_unread(files: LakeFiles, log: SinkLog, now_ms: int, grace_ms: int) -> int:
    """Delete what the log does not name, if it has not for so long that no reader can be at it."""
    batch = log.latest()
    named = {str(entry["path"]) for entry in log.entries(batch)} if batch is not None else set()
    elsewhere = sorted(named - {file.uri for file in files.files()})
    if elsewhere:
        raise CompactionError(
            f"the log of the table {files.root} names files that are not in it, as {elsewhere[0]}: it was moved, or is "
            "called differently here; nothing is touched"
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
        # What a batch or a compaction left that was killed; or what another process writes at this moment.
        if file.uri not in named | waiting and file.modified_ms <= now_ms - grace_ms:
            files.delete(file.uri)
            deleted += 1
    return deleted


def _size(entry: Entry) -> int:
    return int(str(entry["size"]))
