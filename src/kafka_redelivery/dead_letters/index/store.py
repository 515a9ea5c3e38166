"""Writes the files of an index with DuckDB, in bounded memory, and reads them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import duckdb
from arro3.core import Table

from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.dead_letters.decoding import SchemaLackingError
from kafka_redelivery.dead_letters.index.facts import ACTION_COLUMNS, HISTORY, OWNED_COLUMNS, STANDINGS, owned_by
from kafka_redelivery.dead_letters.index.files import Facts, IndexFolder, Manifest, Slot, StoredFile
from kafka_redelivery.dead_letters.index.rows import table_of
from kafka_redelivery.dead_letters.index.sql import empty_letters, empty_standings, letters_view, quoted, stored_view
from kafka_redelivery.topology.redrive.job import Job

MEMORY: Final = "512MB"
"""What DuckDB may use; beyond it spills to files beside the index."""

_SMALL: Final = 8_192
_SMALL_BYTES: Final = 2 << 20
"""Files with fewer rows and bytes are merged; to query many larger ones takes hardly longer than one. Those of a first
build are larger: to write each row of it twice would take time, disk and memory."""

_SMALL_FILES: Final = 16
"""As many small files are merged into one."""

_DELETED: Final = 1 / 8
"""The share of deleted letters at which they are removed from the files. Queries leave them out at once."""

_AGAIN_S: Final = 0.02
"""Time between two interruptions. DuckDB forgets one that comes before the query runs."""

LIMIT_S: Final = 60.0
"""How long a query may take."""

_LEFT: Final = 'SELECT letters.* FROM {} AS letters JOIN slots USING (slot) WHERE letters."offset" >= slots.start'
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


@contextmanager
def time_limit(opened: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt queries of a connection that run in the block for longer.

    ``max_execution_time`` of DuckDB 2.0.0 does not end a query that compares long texts with a pattern.

    Raises:
        ConsumersError: a query was interrupted.
    """
    ended = threading.Event()

    def interrupt() -> None:
        ended.wait(seconds)
        while not ended.wait(_AGAIN_S):
            opened.interrupt()

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    try:
        yield
    except duckdb.InterruptException:
        raise ConsumersError(
            f"the query takes longer than {seconds:g} s; make --where simpler, or select fewer letters with --origin "
            "or --since in addition"
        ) from None
    finally:
        ended.set()
        watcher.join()


def files_in(folder: Path, files: Iterable[StoredFile]) -> str:
    """Return an SQL expression for the rows of some files, of which there is at least one."""
    names = ", ".join(quoted(str(folder / each.name)) for each in files)
    return f"read_parquet([{names}])"


class Store:
    """One writer of an index, or a reader of its facts. Not thread-safe."""

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

    def write(self, kind: str, batches: Sequence[Table]) -> StoredFile:
        """Write rows of a kind: ``letters`` or ``actions``."""
        rows = Table.from_batches([each for table in batches for each in table.to_batches()])
        self._duckdb.register("batch", rows)
        try:
            new = self._write(kind, "FROM batch")
        finally:
            self._duckdb.unregister("batch")
        return replace(new, waiting=rows.num_rows - rows.column("waiting").null_count) if kind == "letters" else new

    def decoded(self, file: StoredFile, texts: Callable[[str, bytes, bytes | None], str | None]) -> StoredFile:
        """Return a file of letters in which values are decoded whose schemas can be had now.

        Args:
            file: it has values that wait for their schemas.
            texts: makes text of a value of a source, and raises ``SchemaLackingError``.
        """
        letters = files_in(self._folder.path, [file])
        places, found = list[tuple[int, int]](), list[str | None]()
        columns = 'slot, "offset", origin, waiting, waiting_header'
        waiting = f"SELECT {columns} FROM {letters} WHERE waiting IS NOT NULL"  # noqa: S608 - text of ours
        for slot, offset, origin, value, header in run(self._duckdb, waiting):
            with suppress(SchemaLackingError):
                found.append(texts(origin, value, header))
                places.append((slot, offset))
        if not found:
            return file
        slots, offsets = zip(*places, strict=True)
        schema = {"slot": "INTEGER", "offset": "BIGINT", "text": "VARCHAR"}
        batch = table_of({"slot": slots, "offset": offsets, "text": found}, schema)
        self._duckdb.register("batch", batch)
        try:
            new = self._write(
                "letters",
                f"""
                SELECT letters.* REPLACE (
                    coalesce(batch.text, letters.value) AS value,
                    CASE WHEN batch.slot IS NULL THEN letters.waiting END AS waiting,
                    CASE WHEN batch.slot IS NULL THEN letters.waiting_header END AS waiting_header
                )
                FROM {letters} AS letters LEFT JOIN batch USING (slot, "offset")
                """,  # noqa: S608 - text of ours
            )
        finally:
            self._duckdb.unregister("batch")
        return self._counted(new)

    def _counted(self, file: StoredFile) -> StoredFile:
        """Return a file of letters with the number of those that wait for a schema."""
        ((waiting,),) = run(self._duckdb, f"SELECT count(waiting) FROM {files_in(self._folder.path, [file])}")  # noqa: S608
        return replace(file, waiting=waiting)

    def letters_left(self, files: Sequence[StoredFile], slots: Iterable[Slot]) -> tuple[StoredFile, ...]:
        """Return files of letters in which small ones are merged; all of them, if many of the letters are deleted."""
        if not files:
            return ()
        self._give_slots(slots)
        left = _LEFT.format(files_in(self._folder.path, files))
        ((kept,),) = run(self._duckdb, f"SELECT count(*) FROM ({left})")  # noqa: S608 - text of ours
        stored = sum(each.rows for each in files)
        if stored - kept > stored * _DELETED:
            return self._merged("letters", files, files, _LEFT)
        return self.merged("letters", files, _LEFT)

    def merged(self, kind: str, files: Sequence[StoredFile], sql: str = "FROM {}") -> tuple[StoredFile, ...]:
        """Return files in which small ones, if there are many, are merged into one."""
        small = [each for each in files if each.rows < _SMALL and each.size < _SMALL_BYTES]
        return self._merged(kind, files, small, sql) if len(small) >= _SMALL_FILES else tuple(files)

    def _merged(
        self, kind: str, files: Sequence[StoredFile], replaced: Sequence[StoredFile], sql: str
    ) -> tuple[StoredFile, ...]:
        new = self._write(kind, sql.format(files_in(self._folder.path, replaced)))
        if any(each.waiting for each in replaced) and new.rows:
            new = self._counted(new)
        return (*(each for each in files if each not in replaced), *([new] if new.rows else []))

    def owned(self, jobs: Iterable[Job]) -> StoredFile | None:
        """Write which letters belong to which job; ``None`` if none does."""
        run(self._duckdb, f"CREATE OR REPLACE TEMP TABLE owned_letters ({OWNED_COLUMNS})")
        for job in jobs:
            if any(job.owned):
                self._duckdb.register("batch", owned_by(job))
                run(self._duckdb, "INSERT INTO owned_letters FROM batch")
                self._duckdb.unregister("batch")
        new = self._write("owned", "FROM owned_letters")
        return new if new.rows else None

    def standings(self, manifest: Manifest) -> StoredFile | None:
        """Write where letters stand; ``None`` if no job has or had any."""
        return self._write("standings", STANDINGS) if self._give_facts(manifest) else None

    def history(self, manifest: Manifest, slot: int, offset: int) -> list[tuple[Any, ...]]:
        """Return the rows of :data:`HISTORY` for one letter."""
        return run(self._duckdb, HISTORY, (slot, offset)) if self._give_facts(manifest) else []

    def _give_facts(self, manifest: Manifest) -> bool:
        """Create the views ``owned`` and ``actions``, and the table ``slots``; return whether any job has letters."""
        facts: Facts = manifest.facts
        if facts.owned_file is None:
            return False
        self._give_slots(manifest.slots)
        run(self._duckdb, f"CREATE OR REPLACE TEMP TABLE no_actions ({ACTION_COLUMNS})")
        said = [*facts.action_files, *([facts.deaths_file] if facts.deaths_file else [])]
        for name, files in (("owned", [facts.owned_file]), ("actions", said)):
            source = files_in(self._folder.path, files) if files else f"no_{name}"
            run(self._duckdb, f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {source}")
        return True

    def _give_slots(self, slots: Iterable[Slot]) -> None:
        """Create the table ``slots``: which number stands for which partition, and where its letters start."""
        columns = "slot INTEGER, topic VARCHAR, topic_id VARCHAR, partition INTEGER, start BIGINT"
        run(self._duckdb, f"CREATE OR REPLACE TEMP TABLE slots ({columns})")
        for each in slots:
            row = each.number, each.topic, each.topic_id, each.partition, each.start
            run(self._duckdb, "INSERT INTO slots VALUES (?, ?, ?, ?, ?)", row)

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


def database(folder: Path, manifest: Manifest, letters: Table | None = None) -> duckdb.DuckDBPyConnection:
    """Open the files of an index; ``letters``: the rows of letters, instead of those of its files."""
    opened = connection(folder)
    # All joins are written with the smaller table second. The engine would turn that of `letters` around for some
    # conditions, and build a hash table of a million letters instead of one of where they stand.
    run(opened, "SET disabled_optimizers = 'build_side_probe_side'")
    source = files_in(folder, manifest.letter_files) if manifest.letter_files else f"({empty_letters()})"
    if letters is not None:
        opened.register("batch", letters)
        source = "batch"
    standings = manifest.standings_file
    states = f"({empty_standings()})" if standings is None else files_in(folder, [standings])
    run(opened, f"CREATE TEMP VIEW standings AS FROM {states}")
    basis = manifest.basis
    stored = stored_view(source, manifest.slots, ours=basis.recognition is None, chosen=basis.question)
    run(opened, f"CREATE TEMP VIEW stored_letters AS {stored}")
    run(opened, f"CREATE TEMP VIEW letters AS {letters_view()}")
    # Conditions are compiled from an allow-list; should one get through, it reads nothing but these files.
    run(opened, f"SET allowed_directories = [{quoted(f'{folder}/')}]")
    run(opened, "SET enable_external_access = false")
    run(opened, "SET lock_configuration = true")
    return opened
