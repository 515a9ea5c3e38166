"""The dead letters as the console's pages ask for them: from the index, and one record from its topic."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.cli.console.selection_form import Chosen
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import ConsumersError, RedriveError
from kafka_redelivery.dead_letters.creation import Preview, preview
from kafka_redelivery.dead_letters.exporting import Exportable, exportable
from kafka_redelivery.dead_letters.index import listing
from kafka_redelivery.dead_letters.index.index import Index, LetterRow
from kafka_redelivery.dead_letters.index.listing import Deaths, deaths
from kafka_redelivery.dead_letters.index.sql import Condition, unexpired
from kafka_redelivery.dead_letters.index.summary import Summary
from kafka_redelivery.dead_letters.letter import DEFAULT_BY, By, Standing
from kafka_redelivery.dead_letters.purge import Removable, removable
from kafka_redelivery.dead_letters.reading import StoredLetter, letter_ends, letter_in, letter_topic_ids
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import TopologyError
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.cluster_admin import TIMEOUT_S, ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

LIBRARY_ERRORS: Final = (ConsumersError, TransportError, TopologyError, SerdeError)
"""What the library raises for people: the message says what happened and how to fix it."""

_Answer = TypeVar("_Answer")

_READERS: Final = 2
"""Queries that run at the same time; each uses all cores."""

_REMEMBERED: Final = 200
"""Answers that are kept, so that the cost does not grow with the number of people who look."""

_LONGEST_S: Final = 120.0
"""How long to wait for the answer to a question that another page has asked. Queries end earlier."""

_MINUTE_MS: Final = 60_000
_WITHIN_S: Final = 10.0
_RECORD_S: Final = 15.0
"""A read takes some milliseconds. This is longer than the console takes to notice that Kafka is away."""


class NotReadYetError(ConsumersError):
    """A page needs what has not been read yet; it is asked for again after the ``event``."""

    def __init__(self, problem: str, event: str) -> None:
        super().__init__(problem)
        self.event = event


class IndexState(NamedTuple):
    """How far the index is."""

    state: int
    """Another number when letters, or what became of them, have changed."""

    topics: Mapping[str, int]
    """The topics of the cluster and their numbers of partitions."""

    ends: Mapping[Partition, int]
    """The ends of the dead-letter topics before the index was brought up to date."""

    ids: TopicIds
    """The ids of the dead-letter topics before that."""


@dataclass(slots=True)
class Reading:
    """How far a refresh of the index is."""

    done: int = 0
    total: int = 0


@dataclass(slots=True)
class Letters:
    """The index of the group. :meth:`refresh` is called by one thread, :meth:`ask` by any."""

    settings: Settings
    options: ConsoleOptions
    reading: Reading = field(default_factory=Reading)
    stop: threading.Event = field(default_factory=threading.Event)
    """Ends a refresh."""

    base: Path = field(default_factory=Path)
    """The folder of the configuration."""

    _writer: Index | None = None
    _offsets: PartitionOffsets | None = None
    """The client of :meth:`refresh`, until it fails."""

    _free: list[Index] = field(default_factory=list)
    """Readers that no query uses. Each stays open until the index changes, because to open one takes long."""

    _slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_READERS))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answers: OrderedDict[tuple[int, Hashable], Future[Any]] = field(default_factory=OrderedDict)
    _state: int = 0

    def refresh(self) -> IndexState:
        """Bring the index up to date, and return how far it is.

        Raises:
            ConsumersError, TransportError: as :meth:`Index.refresh`.
        """
        if self._writer is None:
            self._writer = Index.open(self.settings, path=self.options.index, base=self.base)
            self._state = self._writer.state  # what an earlier console or command has left can be asked at once
        offsets, self._offsets = self._offsets or PartitionOffsets(self.settings.kafka, timeout_s=TIMEOUT_S), None
        topics = ClusterAdmin(self.settings.kafka, calls=offsets.calls).partition_counts()
        ids = letter_topic_ids(self.settings, offsets.calls)
        ends = letter_ends(self.settings, topics, offsets)
        self.reading = Reading()
        self._writer.refresh(self._progress, settled=False, offsets=offsets)
        self._offsets = offsets
        return IndexState(self._changed(self._writer), topics, ends, ids)

    def _changed(self, writer: Index) -> int:
        """Return the state of the index. If it is another one, forget what was said and opened before."""
        state = writer.state
        if state != self._state:
            with self._lock:
                self._state = state
                self._answers.clear()
                self._close_readers()
        return state

    def rest(self) -> None:
        """Release the client of :meth:`refresh` and the files of the index; the next call opens them again."""
        self._offsets = None
        with self._lock:
            self._close_readers()

    @property
    def is_ready(self) -> bool:
        """Whether the index can be asked."""
        return bool(self._state)

    def ask(self, question: Hashable, ask: Callable[[Index], _Answer]) -> _Answer:
        """Return what the index says; the same question is asked once until something changes.

        Args:
            question: names the question with all that its answer depends on.
            ask: asks the index.

        Raises:
            NotReadYetError: there is no index yet.
            ConsumersError: the index cannot be read, or the query takes too long.
        """
        if self._writer is None or not self._state:
            raise NotReadYetError("the index of dead letters is being built", "letters")
        mine: Future[Any] | None = None
        with self._lock:
            known = self._answers.get((self._state, question))
            if known is None:
                known = mine = self._noted(question)
        if mine is not None:
            self._answer(mine, ask)
        found: _Answer = known.result(_LONGEST_S)
        return found

    def _answer(self, mine: Future[Any], ask: Callable[[Index], _Answer]) -> None:
        try:
            mine.set_result(self._asked(ask))
        except BaseException as error:  # noqa: BLE001 - those who wait for the answer get it
            mine.set_exception(error)
            with self._lock:  # the next one asks again
                self._answers = OrderedDict(each for each in self._answers.items() if each[1] is not mine)

    def _noted(self, question: Hashable) -> Future[Any]:
        """Note that a question is asked, so that others who ask it wait for the same answer."""
        mine: Future[Any] = Future()
        self._answers[self._state, question] = mine
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return mine

    def _asked(self, ask: Callable[[Index], _Answer]) -> _Answer:
        with self._slots:
            with self._lock:
                state, index = self._state, self._free.pop() if self._free else None
            if index is None:
                index = self._new_reader()
            try:
                return ask(index)
            finally:
                with self._lock:
                    if state != self._state:
                        index.close()
                    self._free.append(index)

    def _new_reader(self) -> Index:
        if self._writer is None:
            raise NotReadYetError("the index of dead letters is not open", "letters")
        return self._writer.reader()

    def _close_readers(self) -> None:
        """Let the files go: those that are held open stay on the disk when they are replaced."""
        for each in self._free:
            each.close()

    def _progress(self, done: int, total: int) -> None:
        self.reading.done, self.reading.total = done, total
        if self.stop.is_set():
            raise ConsumersError("the console stops")


class Listed(NamedTuple):
    """A page of letters."""

    rows: list[LetterRow]
    total: int


class Kept(NamedTuple):
    """How many letters of the group there are."""

    topics: dict[str, int]
    states: dict[str, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.topics.values())


def answered(letters: Letters, wanted: Chosen, ask: Callable[[], _Answer]) -> tuple[_Answer | None, str, str]:
    """Return the answer about a selection, why there is none, and what it lacks.

    All are empty if the selection has faults, and while the index is being built: the page says so itself.
    """
    if wanted.faults:
        return None, "", ""
    try:
        found = ask()
    except NotReadYetError:
        return None, "", ""
    except LIBRARY_ERRORS as error:
        return None, str(error), ""
    return found, "", undecoded(letters, wanted)


def undecoded(letters: Letters, wanted: Chosen) -> str:
    """Return how many values cannot be decoded that a selection asks for, or why that is not known.

    See :meth:`Index.undecoded`. It raises nothing: the answer about the selection is good without it.
    """
    if wanted.selection.where is None:
        return ""
    try:
        return letters.ask(("undecoded", wanted.key), lambda index: index.undecoded(wanted.selection))
    except LIBRARY_ERRORS as error:
        return f"how many values cannot be decoded is not known: {error}"


def kept(letters: Letters) -> Kept:
    """Return how many letters there are, by topic and by state, without expired ones."""

    def ask(index: Index) -> Kept:
        found = index.summary((By.TOPIC, By.STATE))
        topics: Counter[str] = Counter()
        states: Counter[str] = Counter()
        for row in found.rows:
            topics[str(row.kind[By.TOPIC])] += row.letters
            states[str(row.kind[By.STATE])] += row.letters
        return Kept(dict(topics.most_common()), dict(states.most_common()))

    return letters.ask(("kept", _minute()), ask)


def summary(letters: Letters, wanted: Chosen, texts: int = 0) -> Summary:
    """Return groups of letters; ``texts``: with so many distinct texts of each."""

    def ask(index: Index) -> Summary:
        return index.summary(DEFAULT_BY, index.condition(wanted.selection), texts)

    return letters.ask(("summary", texts, wanted.key, _minute()), ask)


def listed(letters: Letters, wanted: Chosen, offset: int, limit: int, *, oldest: bool) -> Listed:
    """Return letters, the newest first unless ``oldest``."""

    def count(index: Index) -> Deaths:
        meant = index.ours & index.condition(wanted.selection)
        return deaths(index, meant & unexpired(wall_clock_ms()), _WITHIN_S)

    minute = _minute()
    found = letters.ask(("deaths", wanted.key, minute), count)
    rows = letters.ask(
        ("list", wanted.key, offset, limit, oldest, minute),
        lambda index: listing.listed(index, found, offset, limit, _WITHIN_S, oldest=oldest),
    )
    return Listed(rows, found.total)


def preview_of(
    letters: Letters,
    wanted: Chosen,
    options: JobOptions,
    topics: Mapping[str, int],
    ends: Mapping[Partition, int] | None = None,
    *,
    skip_refused: bool = False,
) -> Preview | None:
    """Return what a job would send; ``None`` if the index cannot tell.

    Args:
        letters: the index.
        wanted: the letters.
        options: how they are sent.
        topics: those of the cluster and their numbers of partitions.
        ends: letters below these are meant; without it, all that the index has.
        skip_refused: whether letters are left out that there is no topic for.

    Raises:
        RedriveError: a target is refused or does not exist.
    """
    return letters.ask(
        ("preview", wanted.key, options, tuple((ends or {}).items()), skip_refused, wall_clock_ms() // 1000),
        lambda index: (
            preview(
                letters.settings,
                index,
                wanted.selection,
                options,
                topics,
                wall_clock_ms(),
                ends,
                skip_refused=skip_refused,
            )
            if index.can_select(wanted.selection)
            else None
        ),
    )


def exportable_of(letters: Letters, wanted: Chosen) -> Exportable | None:
    """Return what an export would have; ``None`` if the index cannot tell."""
    return letters.ask(
        ("export", wanted.key, _minute()),
        lambda index: (
            exportable(index, wanted.selection, wall_clock_ms()) if index.can_select(wanted.selection) else None
        ),
    )


def removable_of(letters: Letters, state: IndexState | None) -> dict[Partition, Removable]:
    """Return what a purge would remove.

    Raises:
        RedriveError: the index has not been brought up to date yet.
    """
    if state is None:
        raise RedriveError("the index of dead letters is not there yet")
    return letters.ask(
        ("purge", tuple(sorted(state.ends.items())), state.ids.text()),
        lambda index: removable(index, state.ends),
    )


def one(letters: Letters, name: str) -> LetterRow | None:
    """Return what the index says of one letter; ``None`` if it has none with this id."""
    try:
        place = parse_message_id(name)
    except ValueError:
        return None

    def ask(index: Index) -> LetterRow | None:
        meant = index.ours & _at([place])
        return next(iter(index.select(meant.sql, meant.parameters)), None)

    return letters.ask(("one", place), ask)


def _at(places: Sequence[tuple[Any, ...]]) -> Condition:
    """Return the condition for the letters at some places: topic, partition and offset of each."""
    # The offsets are written out because files whose offsets are others are then not read.
    offsets = ", ".join(str(int(offset)) for _, _, offset in places)
    names = [f"{topic}-{partition}@{offset}" for topic, partition, offset in places]
    return Condition(f'"offset" IN ({offsets}) AND id IN (SELECT unnest(?::VARCHAR[]))', (names,))


def _minute() -> int:
    """Return the minute: what depends on the present is asked again after it."""
    return wall_clock_ms() // _MINUTE_MS


def read_letter(settings: Settings, row: LetterRow, state: IndexState | None) -> StoredLetter:
    """Return a letter that the index has, with its record, soon or not at all.

    Raises:
        RedriveError: it is not in its topic any more.
        TransportError: Kafka does not answer or denies access.
    """
    topic, number, offset = parse_message_id(row.id)
    partition = Partition(topic, number)
    if state is None or offset < state.ends.get(partition, offset + 1):
        starts, ends = {partition: offset}, {partition: offset + 1}
        for message in read_between(settings.kafka, settings.group, starts, ends, stalled_s=_RECORD_S):
            return StoredLetter(letter_in(message, settings), Standing(row.state, row.job, row.sends), message)
    raise RedriveError(f"the letter {row.id} is not in its topic any more")
