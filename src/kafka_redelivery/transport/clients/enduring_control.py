"""The control topic of a running worker or scheduler, for which nothing waits long."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue
from time import monotonic

from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.transport.admin.control_topic import ControlTopic, read_permitted
from kafka_redelivery.transport.client_config import ConfigValue
from kafka_redelivery.transport.clients.bounded_waits import get_within
from kafka_redelivery.transport.errors import ClientSettingsError, ReaderError, TopicForbiddenError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""How long :meth:`EnduringControlTopic.begin` waits for an answer, and then for a confirmed write."""


class EnduringControlTopic(ControlTopic):
    """A :class:`ControlTopic` that is read when it is created, and later by a thread of its own.

    :meth:`begin` waits for a few seconds only, and not at all if the last attempt has failed. The topic is then read
    again after growing pauses, until Kafka answers or an operator has removed the record of another program. A topic
    that is there, or was, is not taken for one that never existed when it may not be read, or was deleted.
    """

    def __init__(self, kafka: Mapping[str, ConfigValue], group: str, topic: str, clock: Callable[[], int]) -> None:
        """Read the topic to its end. If it may not be read, that is a :meth:`problem`.

        If it may not even be described, it is as if there was none, and a warning says so.

        Args:
            kafka: the client settings.
            group: the consumer group.
            topic: its control topic.
            clock: returns epoch ms.

        Raises:
            ReaderError: Kafka does not answer, or refuses.
            ControlRecordError: another program has written to the topic.
        """
        super().__init__(kafka, group, topic, clock)
        self._answers: SimpleQueue[ControlState | BaseException] = SimpleQueue()
        self._reading = False
        """Whether the thread reads, or its answer has not been taken yet."""

        self._outdated = False
        """Whether that reading began before the last :meth:`begin`."""

        self._problem: str | None = None
        """Why what is known may be older than the last :meth:`begin`; ``None`` = it is not."""

        self._backoff = Backoff()
        self._exists = True
        """Whether the topic is there, or was."""

        try:
            self.state = self._present(read_permitted(kafka, group, topic, self._timeout_s))
        except TopicForbiddenError as error:
            self._exists = not error.hidden
            if self._exists:
                self._postpone(error)
            else:
                _log.warning("it is as if there was no control topic: %s", error)
        else:
            self._exists = self.state.exists

    def read(self) -> ControlState:
        """Return what is known. :meth:`problem` says whether that is what the topic had at the last :meth:`begin`."""
        return self.state

    def begin(self, partitions: Iterable[Partition]) -> None:
        """See :class:`ControlTopic`. What fails is not raised; :meth:`problem` and :meth:`note_first_offset` repeat it.

        Call it after the partitions were assigned: their last owner may have saved positions before.
        """
        failed_before = self._problem is not None
        self._problem = self._problem or f"topic {self._topic} cannot be read to its end: no answer yet"
        if self._reading:
            self._outdated = True
        else:
            self._start()
        end_s = monotonic() + (0.0 if failed_before else _PATIENCE_S)
        while self._reading and (left_s := end_s - monotonic()) > 0:
            self._take(left_s)
        if self._problem is not None:
            # What may be saved of them is dropped when their offsets are noted again.
            committed = {each: self.state.committed[each] for each in self.state.committed.keys() - set(partitions)}
            self.state = replace(self.state, committed=committed)
            return
        try:
            self._drop(partitions, _PATIENCE_S)
        except ReaderError as error:
            _log.warning("%s; it is tried again", error)

    def problem(self) -> str | None:
        """See :class:`ControlTopic`. Reads the topic again if that is due; never waits for it."""
        if self._problem is not None:
            if not self._reading and self._backoff.is_due(monotonic()):
                self._start()
            self._take(0.0)
        return self._problem

    def _start(self) -> None:
        self._reading, self._outdated = True, False
        threading.Thread(target=self._read, name="control topic", daemon=True).start()

    def _read(self) -> None:
        try:
            self._answers.put(read_permitted(self._kafka, self._group, self._topic, self._timeout_s))
        except BaseException as error:  # noqa: BLE001 - the polling thread decides about it
            self._answers.put(error)

    def _take(self, within_s: float) -> None:
        try:
            answer = get_within(self._answers, within_s)
        except Empty:
            return
        self._reading = False
        if isinstance(answer, TopicForbiddenError):
            self._exists |= not answer.hidden
            if not self._exists:
                answer = ControlState()  # as at the start, where a warning has said so
        if isinstance(answer, ControlState) and self._exists and not answer.exists:
            answer = ReaderError(f"topic {self._topic} does not exist any more; run `redelivery topology apply`")
        if isinstance(answer, (ReaderError, ControlRecordError, ClientSettingsError)):
            self._postpone(answer)
        elif isinstance(answer, BaseException):
            raise answer
        elif self._outdated:
            self._start()
        else:
            self.state, self._problem, self._backoff = self._present(answer), None, Backoff()
            self._exists |= answer.exists

    def _postpone(self, error: ReaderError | ControlRecordError | ClientSettingsError) -> None:
        self._problem = str(error)
        if self._exists and not self.state.exists:
            self.state = ControlState(exists=True)  # nothing is known, so that each first offset is noted
        self._backoff = self._backoff.failed(monotonic())
        _log.warning("trying again in %.0f s: %s", self._backoff.pause_s, error)
