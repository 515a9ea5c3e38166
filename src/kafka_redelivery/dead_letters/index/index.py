"""The index of a group's dead letters: lists, counts and summarises a million of them in less than a second.

It is a folder of Parquet files in the user's cache, which DuckDB queries: letters in files that are only ever added or
merged, what jobs and outcomes say about them, and where each letter stands by that. :mod:`.files` says why several
processes may use it, and why one that is killed leaves it whole. Everything in it comes from the topics. So it is built
anew if it is damaged, of another version, cluster or configuration, or deleted.

Every command asks it which letters are meant. A question about what it does not keep (values, with
``deadLetters.index.values: false``; decoded ones, with ``decode: false``) is answered for each letter while a temporary
index is built, which keeps the answers alone.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import duckdb
from platformdirs import user_cache_path

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.errors import IndexUnusableError, RedriveError
from kafka_redelivery.dead_letters.decoding import ValueTexts, texts_of
from kafka_redelivery.dead_letters.index.files import VERSION, Basis, IndexFolder, Manifest
from kafka_redelivery.dead_letters.index.refresh import Question, Refresh
from kafka_redelivery.dead_letters.index.sql import EVERY, Condition, can_select, condition_of, ours, undecoded
from kafka_redelivery.dead_letters.index.store import LIMIT_S, Store, database, run, time_limit
from kafka_redelivery.dead_letters.index.summary import Summary, summarise
from kafka_redelivery.dead_letters.ledger import job_topics
from kafka_redelivery.dead_letters.letter import DEFAULT_BY, By, LetterState, Selection, Standing, letter_document
from kafka_redelivery.dead_letters.reading import ReportProgress, no_progress
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, refuse_group
from kafka_redelivery.topology.config.settings import WITH_SCHEMA, SerdeSection
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import identities, no_leader
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

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
    place: str | None
    fingerprint: str | None
    deliveries: str | None
    expiration_ms: int
    redrives: int
    state: LetterState
    job: str | None
    sends: int
    system: str | None

    def document(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return letter_document(self, self, self.key if self.raw_key is None else self.raw_key.decode(errors="replace"))


_ROW: Final = """
    id, source_id, "group", origin, died_ms, key, raw_key, reason, exception, message, place, fingerprint, deliveries,
    expiration_ms, redrives, state, job, sends, system
"""


class Index:
    """An open index. Not thread-safe."""

    def __init__(
        self,
        settings: LetterSource,
        basis: Basis,
        folder: IndexFolder,
        clock: Clock = wall_clock_ms,
        base: Path = Path(),
    ) -> None:
        """Use :meth:`open`."""
        self._settings, self._basis, self._folder, self._clock, self._base = settings, basis, folder, clock, base
        self._duckdb: duckdb.DuckDBPyConnection | None = None
        self._manifest: Manifest | None = None
        self._known: dict[tuple[str, tuple[object, ...]], list[tuple[Any, ...]]] = {}
        self._question: Question | None = None
        self._letters = True
        self.unread: frozenset[Partition] = frozenset()
        """The partitions that the last refresh could not read, because they have no leader."""

    @classmethod
    def open(
        cls,
        settings: LetterSource,
        group: str | None = None,
        *,
        path: Path | None = None,
        base: Path = Path(),
    ) -> Self:
        """Open the kept index of a group's dead letters on the cluster of the settings.

        Args:
            settings: how to reach Kafka, and the names of topics.
            group: the group whose jobs say where letters stand, if not that of the settings.
            path: the folder of all indexes; default: that of the settings, else one in the user's cache.
            base: the folder of the configuration, to which paths of schemas are relative.

        Raises:
            IndexUnusableError: the folder cannot be written.
            TransportError: Kafka does not answer.
        """
        wanted = settings.dead_letters.index
        basis = _basis(settings, group, base)
        folder = path or (None if wanted.path is None else Path(wanted.path)) or default_folder()
        return cls(settings, basis, IndexFolder(folder / _name(basis)), base=base)

    @classmethod
    @contextmanager
    def refreshed(  # noqa: PLR0913 - the last two are flags
        cls,
        settings: LetterSource,
        group: str | None = None,
        selection: Selection | None = None,
        *,
        path: Path | None = None,
        base: Path = Path(),
        progress: ReportProgress = no_progress,
        waiting: Callable[[], None] = lambda: None,
        letters: bool = True,
        skip_leaderless: bool = False,
    ) -> Iterator[Self]:
        """Open an index that can select letters, bring it up to date as :meth:`refresh`, and close it on exit.

        That is the kept one, or a temporary one if that does not keep what is asked, or cannot be written. The
        arguments are those of :meth:`open` and :meth:`refresh`; ``selection`` is what will be asked. Without
        ``letters`` it reads none, and learns of jobs and outcomes alone. If partitions are skipped, a warning says so.

        Raises:
            IndexUnusableError: a temporary one cannot be written either.
            RedriveError, TransportError: as :meth:`refresh`.
        """
        wanted, basis = selection or Selection(), _basis(settings, group, base)
        question = None if can_select(wanted, basis) else Question(wanted, basis)
        with ExitStack() as opened:
            index = None
            if question is None:
                try:
                    index = opened.enter_context(closing(cls.open(settings, group, path=path, base=base)))
                    index._letters = letters  # noqa: SLF001 - of this class
                    index.refresh(progress, waiting=waiting, skip_leaderless=skip_leaderless)
                except IndexUnusableError as error:
                    _log.warning("without an index all dead letters are read: %s", error)
                    index = None
            if index is None:
                folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="redelivery-index-"))
                asked = replace(basis, question=question is not None)
                temporary = cls(settings, asked, IndexFolder(Path(folder) / "index"), base=base)
                index = opened.enter_context(closing(temporary))
                index._question, index._letters = question, letters  # noqa: SLF001 - of this class
                index.refresh(progress, skip_leaderless=skip_leaderless)
            if index.unread:
                _log.warning("%s", index.lacking)
            yield index

    @property
    def path(self) -> Path:
        """The folder of this index."""
        return self._folder.path

    @property
    def lacking(self) -> str:
        """Which partitions the last refresh could not read, and what that means; empty if it has read all."""
        return no_leader(self.unread, "of their records the answer has none but those that the index had before")

    @property
    def state(self) -> int:
        """A number that changes when letters, or what became of them, change; 0 = there is nothing yet."""
        manifest = self._folder.manifest()
        if manifest is None or manifest.basis != self._basis or not manifest.refreshed_ms:
            return 0
        return zlib.crc32(replace(manifest, refreshed_ms=0, asked_ms=0).text())

    @property
    def seen(self) -> int:
        """The end of the topic of the jobs that it has read."""
        return self._read().facts.jobs

    @property
    def ends(self) -> dict[Partition, int]:
        """The end of each partition that it has read."""
        return {Partition(each.topic, each.partition): each.position for each in self._read().slots}

    @property
    def topics(self) -> TopicIds:
        """The ids of the dead-letter topics that it has read, as they were before it read them."""
        ids = {each.topic: each.topic_id for each in self._read().slots if each.topic_id}
        return TopicIds(cluster=self._basis.cluster, ids=ids)

    def reader(self) -> Self:
        """Return this index for another thread, without asking Kafka."""
        return type(self)(self._settings, self._basis, IndexFolder(self.path), self._clock, self._base)

    def close(self) -> None:
        """Close it. What is asked afterwards opens it again."""
        if self._duckdb is not None:
            self._duckdb.close()
        self._duckdb = self._manifest = None
        self._known.clear()

    def refresh(
        self,
        progress: ReportProgress = no_progress,
        *,
        settled: bool = True,
        waiting: Callable[[], None] = lambda: None,
        offsets: PartitionOffsets | None = None,
        anew: bool = False,
        skip_leaderless: bool = False,
    ) -> None:
        """Bring the index up to date.

        Args:
            progress: receives the number of records that were read, and of all.
            settled: whether to wait for open transactions of jobs and outcomes; otherwise the index has what is
                committed.
            waiting: called again and again while another process refreshes it.
            offsets: the client that asks Kafka how far the topics are; without it a new one.
            anew: whether to build it anew.
            skip_leaderless: whether what is known of a partition without a leader stays as it is, and :attr:`unread`
                names it; otherwise its leader is waited for.

        Raises:
            IndexUnusableError: the files cannot be written.
            RedriveError: the cluster does not show the topics.
            TransportError: Kafka does not answer or denies access.
        """
        self.close()
        offsets = offsets or PartitionOffsets(self._settings.kafka)
        question = self._question
        anew = anew or question is not None  # its answers may be about where letters stood
        refresh = Refresh(
            self._settings,
            self._basis,
            self._folder,
            progress,
            settled,
            self._clock(),
            offsets,
            self._texts,
            question,
            skip_leaderless,
        )
        refresh.run(waiting, anew=anew, letters=self._letters)
        facts = job_topics(self._settings, self._basis.group)
        self.unread = frozenset(each for each in refresh.unread if self._letters or each.topic in facts)
        self._basis = refresh.basis

    def select(
        self,
        condition: str = "true",
        parameters: Sequence[object] = (),
        order: str = 'died_ms, topic, partition, "offset"',
        limit: int | None = None,
        within_s: float = LIMIT_S,
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
            ConsumersError: it takes longer.
        """
        sql = f"SELECT {_ROW} FROM letters WHERE {condition} ORDER BY {order}"  # noqa: S608 - conditions are compiled
        sql += "" if limit is None else f" LIMIT {limit:d} OFFSET {skipped:d}"
        return [_letter(row) for row in self.rows(sql, parameters, within_s)]

    def summary(self, by: Sequence[By] = DEFAULT_BY, meant: Condition = EVERY, texts: int = 0) -> Summary:
        """Return the kinds of the group's letters that have not expired.

        Args:
            by: what to group by.
            meant: which letters.
            texts: how many distinct texts to count of each kind.

        Raises:
            IndexUnusableError: as :meth:`select`.
        """
        return summarise(self, meant, by, self._clock(), texts)

    def can_select(self, selection: Selection) -> bool:
        """Whether it can say which letters a selection means."""
        if self._question is not None:
            return self._question.selection == selection
        return can_select(selection, self._basis)

    def condition(self, selection: Selection) -> Condition:
        """Return the condition for a selection: letters of the group that it means.

        Raises:
            IndexUnusableError: it does not keep what the selection asks for.
        """
        if not self.can_select(selection):
            wanted = "key or header" if selection.where is None else "condition"
            lacking = "" if self._basis.values else "; it keeps no keys, headers and values (deadLetters.index.values)"
            if self._basis.values and self._basis.undecodable:
                lacking = "; it has no decoded values (deadLetters.index.decode); `redelivery dlq list` decodes them"
            raise IndexUnusableError(f"the index cannot select letters by this {wanted}{lacking}")
        return Condition("chosen") if self._question else condition_of(selection, self.once, self._basis)

    @cached_property
    def _texts(self) -> Mapping[str, ValueTexts]:
        """They stay, because they hold the schemas."""
        asked = self._question is not None and self._question.selection.asks_for_values
        return texts_of(self._settings, self._base) if self._basis.decoded or asked else {}

    def undecoded(self, selection: Selection) -> str:
        """Return how many values cannot be decoded, and why; empty if the selection does not ask for values, or none.

        Only letters count that the rest of the selection means, without ``where``.

        Raises:
            IndexUnusableError: as :meth:`select`.
        """
        if not (selection.asks_for_values and self._basis.coded):
            return ""
        if self._question is not None:
            found = self._question.undecoded
        else:
            found = undecoded(selection, self.rows, self._basis, self._clock())
        if not found.values:
            return ""
        one = found.values == 1
        values = "1 value cannot be decoded, and is" if one else f"{found.values:,} values cannot be decoded, and are"
        lacking = self.snapshot.lacking if found.waiting else ""
        return f"{values} NULL in --where" + (f"; some wait for a schema: {lacking}" if lacking else "")

    @property
    def ours(self) -> Condition:
        """The condition for letters of the group; another system's are all meant."""
        return ours(self._basis)

    @property
    def not_ours(self) -> tuple[int, int]:
        """How many letters of other groups it has, and how many records that name no group."""
        if self._basis.recognition is not None:
            return 0, 0
        sizes = dict(self.once("SELECT coalesce(\"group\", ''), count(*) FROM stored_letters GROUP BY 1"))
        unreadable = sizes.pop("", 0)
        return sum(sizes.values()) - sizes.get(self._basis.group, 0), unreadable

    def history(self, topic: str, partition: int, offset: int) -> list[Standing]:
        """Return where a letter stood after each job that has or had it."""
        found = [Standing()]
        for state, job, was_sent, reason in self._recovering(lambda: self._steps(topic, partition, offset)):
            before = found[-1]
            after = Standing(state and LetterState(state), job, before.sends + was_sent, reason)
            found.append(before if state is None else after)
        return found[1:]

    def _steps(self, topic: str, partition: int, offset: int) -> list[tuple[Any, ...]]:
        manifest = self._read()
        numbers = [each.number for each in manifest.slots if (each.topic, each.partition) == (topic, partition)]
        with closing(Store(self._folder)) as store:
            return [row for number in numbers for row in store.history(manifest, number, offset)]

    def sends(self, topic: str, partition: int) -> dict[int, int]:
        """Return how often letters of a partition were sent, by offset, without those that never were."""
        numbers = [each.number for each in self._read().slots if (each.topic, each.partition) == (topic, partition)]
        sql = 'SELECT "offset", sends FROM standings WHERE sends > 0 AND slot IN (SELECT unnest(?::INTEGER[]))'
        return dict(self.rows(sql, (numbers,)))

    def rows(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object] = (), within_s: float = LIMIT_S
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the table ``letters``; raises as :meth:`select`."""
        return self._recovering(lambda: self._query(sql, parameters, within_s))

    def _recovering(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask; if files are damaged build the index anew, and if they are gone take the present ones, and ask again."""
        try:
            return ask()
        except duckdb.Error as error:
            manifest = self._read()
            is_present = self._folder.manifest() == manifest
            if is_present and self._folder.is_intact(manifest):
                raise IndexUnusableError(f"the index of dead letters in {self.path} cannot be read: {error}") from error
        self.close()
        if is_present:
            self.refresh(anew=True)
        return ask()

    @property
    def snapshot(self) -> Manifest:
        """What is asked: answers of equal snapshots are about the same letters."""
        return self._read()

    def refuse_changes(self, since: Manifest) -> None:
        """Refuse to do something with letters that were shown if the index is not the same, byte for byte.

        Raises:
            RedriveError: it is not. A damaged index is built anew.
        """
        if self.snapshot == since and self._folder.is_intact(since):
            return
        if self._folder.manifest() == since:
            self.refresh(anew=True)
        raise RedriveError("the letters have changed since they were shown, so nothing is done; preview again")

    def once(self, sql: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return what :meth:`rows` returns; asked once as long as the index is open, if it is not much.

        For a few constant queries whose rows depend on the index alone.
        """
        found = self._known.get((sql, parameters))
        if found is None:
            found = self.rows(sql, parameters)
            if len(found) <= _KNOWN_ROWS:
                self._known[sql, parameters] = found
        return found

    def _query(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object], within_s: float
    ) -> list[tuple[Any, ...]]:
        opened = self._opened()
        with time_limit(opened, within_s):
            return run(opened, sql, parameters)

    def _read(self) -> Manifest:
        """Return the manifest whose files are asked."""
        if self._manifest is None:
            found = self._folder.manifest()
            if found is None or found.basis != self._basis or not self._folder.is_whole(found):
                self.refresh()
                found = self._folder.manifest()
            if found is None:
                raise IndexUnusableError(f"the index of dead letters in {self.path} is deleted again and again")
            self._manifest = found
        return self._manifest

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._duckdb is None:
            self._duckdb = database(self.path, self._read())
        return self._duckdb


def _basis(settings: LetterSource, group: str | None, base: Path) -> Basis:
    refuse_group(settings, group or settings.group)
    class_only, wanted = settings.failure_details.class_only, settings.dead_letters.index
    values = wanted.values and not class_only
    decodes = values and wanted.decode
    coded = {each.topic: each.value for each in settings.sources if each.value.format in WITH_SCHEMA}
    return Basis(
        version=VERSION,
        cluster=identities(settings.kafka, ()).cluster,
        group=group or settings.group,
        values=values,
        class_only=class_only,
        undecodable=() if decodes else tuple(sorted(coded)),
        decoded=tuple((topic, _digest(coded[topic], base)) for topic in sorted(coded)) if decodes else (),
        recognition=settings.recognition if isinstance(settings, OtherSystem) else None,
    )


def _digest(section: SerdeSection, base: Path) -> str:
    """Return what changes with how values are decoded. Of the registry only its address counts; files are read."""
    named = [Path(each) for each in (*section.schemas.values(), *([section.reader] if section.reader else []))]
    folders = {path.parent for path in named}
    beside = [folder / each.name for folder in folders for each in (base / folder).glob("*.avsc")]  # they name types
    contents = {str(each): _content(base / each) for each in sorted({*named, *beside})}
    how = section.format, sorted(section.schemas.items()), section.reader, section.registry.get("url"), contents
    return hashlib.sha256(repr(how).encode()).hexdigest()[:12]


def _content(path: Path) -> bytes | None:
    """Return what is in a file; ``None`` if it cannot be read, which is an error when something is decoded."""
    with suppress(OSError):
        return path.read_bytes()
    return None


def default_folder() -> Path:
    """Return the folder of all indexes in the user's cache."""
    return user_cache_path("kafka-redelivery") / "index"


def _name(basis: Basis) -> str:
    """Return a file name for a group and a cluster: readable, and distinct even where names have other characters."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", basis.group)[:80]
    whose = f"{basis.cluster}\n{basis.group}" + ("" if basis.recognition is None else "\nof another system")
    distinct = hashlib.sha256(whose.encode()).hexdigest()[:12]
    return f"{readable}-{distinct}"


def _letter(row: tuple[Any, ...]) -> LetterRow:
    found = LetterRow(*row)
    return found._replace(state=LetterState(found.state))
