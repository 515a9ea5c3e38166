"""The dead letters as the console's pages ask for them: from the index alone, never from the topics."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.dead_letters.created_again import letter_topic_ids
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.letter_places import letter_ends
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.cluster_admin import TIMEOUT_S, ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

_Answer = TypeVar("_Answer")

_READERS: Final = 2
"""Queries that run at the same time; each uses all cores."""

_REMEMBERED: Final = 200
"""Answers that are kept, so that the cost does not grow with the number of people who look."""

_LONGEST_S: Final = 120.0
"""How long to wait for the answer to a question that another page has asked. Queries end earlier."""


class NoIndexYetError(ConsumersError):
    """The index is built for the first time, or cannot be built."""


class StoppedError(ConsumersError):
    """The console stops while the index is brought up to date. The next console or command goes on."""


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
            self._writer = Index.open(self.settings, path=self.options.index)
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

    @property
    def has_values(self) -> bool:
        """Whether keys, headers and values can be asked for."""
        return self._writer is not None and self._writer.has_values and not self.options.hide_payloads

    def ask(self, question: Hashable, ask: Callable[[Index], _Answer]) -> _Answer:
        """Return what the index says; the same question is asked once until something changes.

        Args:
            question: names the question with all that its answer depends on.
            ask: asks the index.

        Raises:
            NoIndexYetError: there is no index yet.
            ConsumersError: the index cannot be read, or the query takes too long.
        """
        if self._writer is None or not self._state:
            raise NoIndexYetError("the index of dead letters is being built")
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
            raise NoIndexYetError("the index of dead letters is not open")
        return self._writer.reader()

    def _close_readers(self) -> None:
        """Let the files go: those that are held open stay on the disk when they are replaced."""
        for each in self._free:
            each.close()

    def _progress(self, done: int, total: int) -> None:
        self.reading.done, self.reading.total = done, total
        if self.stop.is_set():
            raise StoppedError("the console stops")
