"""Writes the files of an index with DuckDB, in bounded memory."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import duckdb
from arro3.core import Table

from kafka_redelivery.dead_letters.index.catalogue import Catalogue, Slot, StoredFile
from kafka_redelivery.dead_letters.index.facts import (
    ACTION_COLUMNS,
    OWNED_COLUMNS,
    STANDINGS,
    owned_by,
)
from kafka_redelivery.dead_letters.index.folder import IndexFolder
from kafka_redelivery.dead_letters.index.view import quoted
from kafka_redelivery.topology.redrive.job import Job

MEMORY: Final = "512MB"
"""What DuckDB may use; beyond it spills to files beside the index."""

_FAN_IN: Final = 8
"""As many files of about the same size are merged into one."""

_SMALLEST: Final = 4_096
"""Files with fewer rows count as one size."""

_LARGE_ROWS: Final = 32_768
_LARGE_BYTES: Final = 8 << 20
"""Files that are not merged: to query many of them takes hardly longer than one, and to write each row of a first build
twice would take a tenth of its time."""

_DELETED: Final = 1 / 8
"""The share of deleted letters at which they are removed from the files. Queries leave them out at once."""

_LEFT: Final = 'SELECT {} FROM {} AS letters JOIN slots USING (slot) WHERE letters."offset" >= slots.start'
_FORMAT: Final = "(FORMAT parquet, COMPRESSION snappy)"


def connection(folder: Path) -> duckdb.DuckDBPyConnection:
    """Open DuckDB without a database, for files of a folder."""
    opened = duckdb.connect(
        ":memory:",
        config={"memory_limit": MEMORY, "temp_directory": str(folder), "preserve_insertion_order": False},
    )
    run(opened, "SET TimeZone = 'UTC'")
    return opened


def run(
    opened: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()
) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows. DuckDB does nothing else before all of them are fetched."""
    return opened.execute(sql, parameters).fetchall()


def files_in(folder: Path, files: Iterable[StoredFile]) -> str:
    """Return an SQL expression for the rows of some files, of which there is at least one."""
    names = ", ".join(quoted(str(folder / each.name)) for each in files)
    return f"read_parquet([{names}])"


class Store:
    """One writer of an index. Not thread-safe."""

    def __init__(self, folder: IndexFolder) -> None:
        self._folder = folder

    @cached_property
    def _duckdb(self) -> duckdb.DuckDBPyConnection:
        """Opened when it is needed first: most refreshes of a console find nothing new."""
        return connection(self._folder.path)

    def close(self) -> None:
        """Free what DuckDB holds."""
        if "_duckdb" in self.__dict__:
            self._duckdb.close()

    def letters(self, batches: Sequence[Table]) -> StoredFile:
        """Write letters."""
        self._duckdb.register("batch", _joined(batches))
        try:
            return self._write("letters", "FROM batch")
        finally:
            self._duckdb.unregister("batch")

    def merged(self, files: Sequence[StoredFile], slots: Iterable[Slot]) -> tuple[StoredFile, ...]:
        """Return files of letters in which many small ones are replaced by a larger one, without deleted letters.

        If many of all letters are deleted, all files are replaced.
        """
        if not files:
            return ()
        self._give_slots(slots)
        stored = sum(each.rows for each in files)
        left = self._rows(f"({_LEFT.format('1', files_in(self._folder.path, files))})")
        if stored - left > stored * _DELETED:
            new = self._write("letters", _LEFT.format("letters.*", files_in(self._folder.path, files)))
            return (new,) if new.rows else ()
        return self._merged("letters", files, _LEFT.format("letters.*", "{}"))

    def merged_facts(self, kind: str, files: Sequence[StoredFile]) -> tuple[StoredFile, ...]:
        """Return files of facts in which many small ones are replaced by a larger one."""
        return self._merged(kind, files, "FROM {}")

    def owned(self, jobs: Iterable[Job]) -> StoredFile | None:
        """Write which letters belong to which job; ``None`` if none does."""
        run(self._duckdb, f"CREATE OR REPLACE TEMP TABLE owned_letters ({OWNED_COLUMNS})")
        for job in jobs:
            if any(job.owned):
                self._duckdb.register("batch", owned_by(job))
                run(self._duckdb, "INSERT INTO owned_letters FROM batch")
                self._duckdb.unregister("batch")
        return self._write("owned", "FROM owned_letters") if self._rows("owned_letters") else None

    def actions(self, batches: Sequence[Table]) -> StoredFile:
        """Write actions."""
        self._duckdb.register("batch", _joined(batches))
        try:
            return self._write("actions", "FROM batch")
        finally:
            self._duckdb.unregister("batch")

    def standings(self, catalogue: Catalogue) -> StoredFile | None:
        """Write where letters stand; ``None`` if no job has or had any."""
        facts = catalogue.facts
        if facts.owned_file is None:
            return None
        self._give_slots(catalogue.slots)
        both: Mapping[str, tuple[Sequence[StoredFile], str]] = {
            "owned": ([facts.owned_file], OWNED_COLUMNS),
            "actions": (facts.action_files, ACTION_COLUMNS),
        }
        for name, (files, columns) in both.items():
            run(self._duckdb, f"CREATE OR REPLACE TEMP TABLE no_{name} ({columns})")
            source = files_in(self._folder.path, files) if files else f"no_{name}"
            run(self._duckdb, f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {source}")
        return self._write("standings", STANDINGS)

    def _give_slots(self, slots: Iterable[Slot]) -> None:
        """Create the table ``slots``: which number stands for which partition, and where its letters start."""
        columns = "slot INTEGER, topic VARCHAR, topic_id VARCHAR, partition INTEGER, start BIGINT"
        run(self._duckdb, f"CREATE OR REPLACE TEMP TABLE slots ({columns})")
        for each in slots:
            row = each.number, each.topic, each.topic_id, each.partition, each.start
            run(self._duckdb, "INSERT INTO slots VALUES (?, ?, ?, ?, ?)", row)

    def _merged(self, kind: str, files: Sequence[StoredFile], sql: str) -> tuple[StoredFile, ...]:
        kept = list(files)
        while True:
            levels: dict[int, list[StoredFile]] = {}
            for each in kept:
                if each.rows < _LARGE_ROWS and each.size < _LARGE_BYTES:
                    levels.setdefault(_level(each.rows), []).append(each)
            full = next((found for found in levels.values() if len(found) >= _FAN_IN), None)
            if full is None:
                return tuple(kept)
            new = self._write(kind, sql.format(files_in(self._folder.path, full)))
            kept = [each for each in kept if each not in full]
            kept += [new] if new.rows else []

    def _write(self, kind: str, sql: str) -> StoredFile:
        name = f"{kind}-{secrets.token_hex(8)}.parquet"
        path = self._folder.path / name
        path.touch(mode=0o600)
        try:
            found = run(self._duckdb, f"COPY ({sql}) TO {quoted(str(path))} {_FORMAT}")
        except BaseException:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        return self._folder.stored(name, int(found[0][0]))

    def _rows(self, table: str) -> int:
        return int(run(self._duckdb, f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 - text of ours


def _joined(tables: Iterable[Table]) -> Table:
    return Table.from_batches([each for table in tables for each in table.to_batches()])


def _level(rows: int) -> int:
    level = 0
    while rows > _SMALLEST:
        rows //= _FAN_IN
        level += 1
    return level
