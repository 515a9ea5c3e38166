"""The index of a group's dead letters: lists, counts and summarises a million of them in less than a second.

It is a folder of Parquet files in the user's cache, which DuckDB queries: letters in files that are only ever added or
merged, what jobs and outcomes say about them, and where each letter stands by that. :mod:`.folder` says why several
processes may use it, and why one that is killed leaves it whole. Everything in it comes from the topics. So it is built
anew if it is damaged, of another version, cluster or configuration, or deleted; and it never decides what is sent.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import duckdb
from platformdirs import user_cache_path

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.index.catalogue import VERSION, Basis, Catalogue
from kafka_redelivery.dead_letters.index.folder import IndexFolder
from kafka_redelivery.dead_letters.index.refresh import Refresh
from kafka_redelivery.dead_letters.index.selecting import EVERY, Condition, can_select, condition_of
from kafka_redelivery.dead_letters.index.store import connection, files_in, run
from kafka_redelivery.dead_letters.index.summary import Summary, summarise
from kafka_redelivery.dead_letters.index.view import empty_letters, empty_standings, letters_view, quoted, stored_view
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.reading import ReportProgress, no_progress
from kafka_redelivery.dead_letters.standing import LetterState
from kafka_redelivery.dead_letters.summary_columns import DEFAULT_BY, By
from kafka_redelivery.dead_letters.time_limit import time_limit
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.identities import identities
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets

_LIMIT_S: Final = 60.0
_KNOWN_ROWS: Final = 10_000


class LetterRow(NamedTuple):
    """A dead letter in the index. What its headers do not say is ``None``."""

    id: str
    source_id: str | None
    group: str | None
    origin: str | None
    died_ms: int
    key: str | None
    raw_key: bytes | None
    """The key, if it is no text."""

    reason: str | None
    exception: str | None
    message: str | None
    fingerprint: str | None
    deliveries: str | None
    expiration_ms: int
    redrives: int
    state: LetterState
    job: str | None
    sends: int


_ROW: Final = """
    id, source_id, "group", origin, died_ms, key, raw_key, reason, exception, message, fingerprint, deliveries,
    expiration_ms, redrives, state, job, sends
"""


class Index:
    """An open index. Not thread-safe, except :meth:`interrupt`."""

    def __init__(self, settings: Settings, basis: Basis, folder: IndexFolder, clock: Clock) -> None:
        """Use :meth:`open`."""
        self._settings, self._basis, self._folder, self._clock = settings, basis, folder, clock
        self._duckdb: duckdb.DuckDBPyConnection | None = None
        self._known: dict[str, list[tuple[Any, ...]]] = {}

    @classmethod
    def open(
        cls, settings: Settings, group: str | None = None, *, path: Path | None = None, clock: Clock = wall_clock_ms
    ) -> Self:
        """Open the index of a group's dead letters on the cluster of the settings.

        Args:
            settings: how to reach Kafka, and the names of topics.
            group: the group whose jobs say where letters stand, if not that of the settings.
            path: the folder of all indexes; default: that of the settings, else one in the user's cache.
            clock: tells the time.

        Raises:
            IndexUnusableError: the folder cannot be written.
            TransportError: Kafka does not answer.
        """
        cluster = identities(settings.kafka, ()).cluster
        wanted = settings.dead_letters.index
        basis = Basis(
            version=VERSION,
            cluster=cluster,
            group=group or settings.group,
            values=wanted.values and not settings.failure_details.class_only,
            class_only=settings.failure_details.class_only,
            undecodable=tuple(sorted(each.topic for each in settings.sources if each.value.format == "avro")),
        )
        folder = path or (None if wanted.path is None else Path(wanted.path)) or default_folder()
        return cls(settings, basis, IndexFolder(folder / _name(basis)), clock)

    @property
    def has_values(self) -> bool:
        """Whether keys, header values and values can be asked for."""
        return self._basis.values

    @property
    def path(self) -> Path:
        """The folder of this index."""
        return self._folder.path

    @property
    def state(self) -> int:
        """A number that changes when letters, or what became of them, change; 0 = there is nothing yet."""
        catalogue = self._folder.catalogue()
        if catalogue is None or catalogue.basis != self._basis or not catalogue.refreshed_ms:
            return 0
        return zlib.crc32(replace(catalogue, refreshed_ms=0).text().encode())

    def reader(self) -> Self:
        """Return this index for another thread, without asking Kafka."""
        return type(self)(self._settings, self._basis, IndexFolder(self.path), self._clock)

    def close(self) -> None:
        """Let the files go."""
        if self._duckdb is not None:
            self._duckdb.close()
            self._duckdb = None
        self._known.clear()
        self._folder.end_reading()

    def refresh(
        self,
        progress: ReportProgress = no_progress,
        *,
        settled: bool = True,
        waiting: Callable[[], None] = lambda: None,
        offsets: PartitionOffsets | None = None,
        thoroughly: bool = False,
    ) -> None:
        """Bring the index up to date.

        Args:
            progress: receives the number of records that were read, and of all.
            settled: whether to wait for open transactions of jobs and outcomes; otherwise the index has what is
                committed.
            waiting: called again and again while another process refreshes it.
            offsets: the client that asks Kafka how far the topics are; without it a new one.
            thoroughly: whether to read all files, also those whose size and time are unchanged, to find damage.

        Raises:
            IndexUnusableError: the files cannot be written.
            RedriveError: the cluster does not show the topics.
            TransportError: Kafka does not answer or denies access.
        """
        self.close()
        offsets = offsets or PartitionOffsets(self._settings.kafka)
        refresh = Refresh(self._settings, self._basis, self._folder, progress, settled, self._clock(), offsets)
        refresh.run(waiting, thoroughly=thoroughly)

    def select(
        self,
        condition: str = "true",
        parameters: Sequence[object] = (),
        order: str = 'died_ms, topic, partition, "offset"',
        limit: int | None = None,
        within_s: float = _LIMIT_S,
        skipped: int = 0,
    ) -> list[LetterRow]:
        """Return letters.

        Args:
            condition: an SQL condition over the columns of :mod:`dead_letters.where.columns`.
            parameters: the values of its question marks.
            order: SQL to order by.
            limit: how many to return at most.
            within_s: a time limit.
            skipped: how many of the first ones to leave out.

        Raises:
            IndexUnusableError: the index is damaged, and cannot be built anew.
            SlowQueryError: it takes longer.
        """
        sql = f"SELECT {_ROW} FROM letters WHERE {condition} ORDER BY {order}"  # noqa: S608 - conditions are compiled
        sql += "" if limit is None else f" LIMIT {limit:d} OFFSET {skipped:d}"
        return [_letter(row) for row in self.rows(sql, parameters, within_s)]

    def summary(self, by: Sequence[By] = DEFAULT_BY, meant: Condition = EVERY) -> Summary:
        """Return the kinds of the group's letters that have not expired.

        Args:
            by: what to group by.
            meant: which letters.

        Raises:
            IndexUnusableError: as :meth:`select`.
        """
        return summarise(self, self._basis.group, meant, by, self._clock())

    def condition(self, selection: Selection) -> Condition | None:
        """Return the condition for a selection; ``None`` if the index cannot tell, so that letters have to be read."""
        if not can_select(selection, values=self._basis.values, decoded=not self._basis.undecodable):
            return None
        found = condition_of(selection, self.once)
        return found if selection.where is None else found & Condition(*selection.where.duckdb)

    def needed_condition(self, selection: Selection) -> Condition:
        """Return the condition for a selection.

        Raises:
            IndexUnusableError: the index cannot tell.
        """
        found = self.condition(selection)
        if found is None:
            wanted = "key or header" if selection.where is None else "condition"
            lacking = "" if self._basis.values else "; it keeps no keys, headers and values (deadLetters.index.values)"
            if self._basis.values and self._basis.undecodable:
                lacking = "; it has no decoded Avro values. `redelivery dlq list` reads and decodes them"
            raise IndexUnusableError(f"the index cannot select letters by this {wanted}{lacking}")
        return found

    def rows(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object] = (), within_s: float = _LIMIT_S
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the table ``letters``; raises as :meth:`select`."""
        try:
            return self._query(sql, parameters, within_s)
        except (duckdb.IOException, duckdb.InvalidInputException, duckdb.SerializationException) as error:
            if self._is_whole():
                raise IndexUnusableError(f"the index of dead letters in {self.path} cannot be read: {error}") from error
        self.refresh(thoroughly=True)
        return self._query(sql, parameters, within_s)

    def once(self, sql: str) -> list[tuple[Any, ...]]:
        """Return what :meth:`rows` returns; asked once as long as the index is open, if it is not much.

        For a few constant queries whose rows depend on the index alone.
        """
        found = self._known.get(sql)
        if found is None:
            found = self.rows(sql)
            if len(found) <= _KNOWN_ROWS:
                self._known[sql] = found
        return found

    def _query(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object], within_s: float
    ) -> list[tuple[Any, ...]]:
        opened = self._opened()
        with time_limit(opened, within_s):
            return run(opened, sql, parameters)

    def _is_whole(self) -> bool:
        catalogue = self._folder.catalogue()
        return catalogue is not None and self._folder.is_whole(catalogue, thoroughly=True)

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._duckdb is None:
            catalogue = self._folder.begin_reading()
            if catalogue is None or catalogue.basis != self._basis or not self._folder.is_whole(catalogue):
                self._folder.end_reading()
                self.refresh()
                catalogue = self._folder.begin_reading()
            if catalogue is None:
                raise IndexUnusableError(f"the index of dead letters in {self.path} is deleted again and again")
            self._duckdb = _database(self.path, catalogue)
        return self._duckdb


def default_folder() -> Path:
    """Return the folder of all indexes in the user's cache."""
    return user_cache_path("kafka-redelivery") / "index"


def _name(basis: Basis) -> str:
    """Return a file name for a group and a cluster: readable, and distinct even where names have other characters."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", basis.group)[:80]
    distinct = hashlib.sha256(f"{basis.cluster}\n{basis.group}".encode()).hexdigest()[:12]
    return f"{readable}-{distinct}"


def _database(folder: Path, catalogue: Catalogue) -> duckdb.DuckDBPyConnection:
    opened = connection(folder)
    # All joins are written with the smaller table second. The engine would turn that of `letters` around for some
    # conditions, and build a hash table of a million letters instead of one of where they stand.
    run(opened, "SET disabled_optimizers = 'build_side_probe_side'")
    letters = files_in(folder, catalogue.letter_files) if catalogue.letter_files else f"({empty_letters()})"
    standings = catalogue.standings_file
    states = f"({empty_standings()})" if standings is None else files_in(folder, [standings])
    run(opened, f"CREATE TEMP VIEW stored_letters AS {stored_view(letters, catalogue.slots)}")
    run(opened, f"CREATE TEMP VIEW letters AS {letters_view(states)}")
    # Conditions are compiled from an allow-list; should one get through, it reads nothing but these files.
    run(opened, f"SET allowed_directories = [{quoted(f'{folder}/')}]")
    run(opened, "SET enable_external_access = false")
    run(opened, "SET lock_configuration = true")
    return opened


def _letter(row: tuple[Any, ...]) -> LetterRow:
    found = LetterRow(*row)
    return found._replace(state=LetterState(found.state))
