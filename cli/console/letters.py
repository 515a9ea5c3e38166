"""The dead letters as the console's pages ask for them: from the index alone, never from the topics."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.index.index import Index
from kafka_redelivery.consumers.redrive.letter_places import letter_ends
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.protocols import Partition

_Answer = TypeVar("_Answer")

_READERS: Final = 2
"""Queries that run at the same time; each uses all cores."""

_REMEMBERED: Final = 200
"""Answers that are kept, so that the cost does not grow with the number of people who look."""

_WITHIN_S: Final = 10.0


class NoIndexYetError(ConsumersError):
    """The index is built for the first time, or cannot be built."""


class IndexState(NamedTuple):
    """How far the index is."""

    state: int
    """Another number when letters, or what became of them, have changed."""

    topics: Mapping[str, int]
    """The topics of the cluster and their numbers of partitions."""

    ends: Mapping[Partition, int]
    """The ends of the dead-letter topics before the index was brought up to date."""


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
    _writer: Index | None = None
    _free: list[Index] = field(default_factory=list)
    _slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_READERS))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answers: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    _state: int = 0

    def refresh(self) -> IndexState:
        """Bring the index up to date, and return how far it is.

        Raises:
            ConsumersError, TransportError: as :meth:`Index.refresh`.
        """
        if self._writer is None:
            self._writer = Index.open(self.settings, path=self.options.index)
            self._state = self._writer.state  # what an earlier console or command has left can be asked at once
        topics = ClusterAdmin(self.settings.kafka).partition_counts()
        ends = letter_ends(self.settings, topics)
        self.reading = Reading()
        self._writer.refresh(self._progress, settled=False)
        state = self._writer.state
        if state != self._state:
            with self._lock:
                self._state = state
                self._answers.clear()
        return IndexState(state, topics, ends)

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
        state = self._state
        with self._lock:
            if question in self._answers:
                self._answers.move_to_end(question)
                found: _Answer = self._answers[question]
                return found
        with self._slots:
            index = self._reader()
            try:
                answer = ask(index)
            finally:
                index.close()  # files that are held open stay on the disk when they are replaced
                with self._lock:
                    self._free.append(index)
        with self._lock:
            if state == self._state:
                self._answers[question] = answer
                while len(self._answers) > _REMEMBERED:
                    self._answers.popitem(last=False)
        return answer

    def _reader(self) -> Index:
        with self._lock:
            if self._free:
                return self._free.pop()
        if self._writer is None:
            raise NoIndexYetError("the index of dead letters is not open")
        return self._writer.reader()

    def _progress(self, done: int, total: int) -> None:
        self.reading.done, self.reading.total = done, total
