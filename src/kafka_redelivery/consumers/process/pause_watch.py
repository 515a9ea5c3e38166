"""Follows the pauses in the control topic, and notes there which of them this process has applied, and its faults."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Protocol

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.printable import printable_line, printable_time
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.outages import OutageNote, ProbeLease
from kafka_redelivery.topology.wire.pauses import (
    REPORT_LENGTH,
    Pause,
    PausedTopics,
    Pauses,
    ProcessName,
    fault_record,
    next_report,
    process_record,
    tombstones,
)
from kafka_redelivery.topology.wire.waiting import WaitingRequest, withdrawn_requests
from kafka_redelivery.transport.admin.control_topic import ControlTail, append_control
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.clients.topic_watch import TopicWatch
from kafka_redelivery.transport.errors import TopicForbiddenError, TransportError

_log = logging.getLogger(__name__)

_POLL_S = 0.2
"""A pause ends by itself at most this much later; one that is written arrives earlier."""

_ABSENT_S = 1.0
"""How often it is examined whether there is a control topic by now."""

_RESTART_S = 2.0
_FORBIDDEN_S = 60.0
_WRITE_S = 2.0
_NOTE_AGAIN_S = 30.0
_REPORT_S = 5.0
"""How often it is examined whether the faults have changed."""

_FORGOTTEN_MS = 3_600_000
"""How old a fault of another process is when it is withdrawn: that process has died under a random name.

So are requests that ended so long ago: who has made them does not look any more."""

_SEEN_BY_OTHERS = frozenset({"pauses", "scheduler", "decided"})
"""What `redelivery status` finds out itself."""


class PauseView(Protocol):
    """What a process must not handle now. Its thread of work reads it, and says what it has applied."""

    @property
    def current(self) -> PausedTopics:
        """What must not be handled. Another object when it changes."""
        ...

    @property
    def tiers(self) -> frozenset[str]:
        """The tiers that the control topic names: other members may write to them."""
        ...

    @property
    def requests(self) -> Sequence[WaitingRequest]:
        """What operators want done with waiting records and has not ended, the oldest first."""
        ...

    def applied(self, pauses: PausedTopics) -> None:
        """No handler call or release begins any more that ``pauses`` forbids."""
        ...


class NoPauses:
    """Nothing is ever paused."""

    current = PausedTopics()
    tiers: frozenset[str] = frozenset()
    requests: Sequence[WaitingRequest] = ()

    def applied(self, pauses: PausedTopics) -> None:
        """See :class:`PauseView`."""


class PauseWatch:
    """A thread of its own follows the control topic. While Kafka does not answer, the last known pauses hold."""

    def __init__(self, settings: Settings, process: ProcessName, health: Health) -> None:
        """Know of no pause before :meth:`read`.

        Args:
            settings: the configuration.
            process: the name of this process in the control topic.
            health: gets the pauses that hold, and has the faults.
        """
        self._settings = settings
        self._naming = settings.naming()
        self._process = process
        self._health = health
        self._tail: ControlTail | None = None
        self._topics = TopicWatch(settings.kafka)
        self.current = PausedTopics()
        """See :class:`PauseView`. Written by the watching thread."""

        self._known = Pauses()
        self.tiers: frozenset[str] = frozenset()
        """See :class:`PauseView`. Written by the watching thread."""

        self.requests: Sequence[WaitingRequest] = ()
        """See :class:`PauseView`. Written by the watching thread."""

        self._records: SimpleQueue[ControlRecord] = SimpleQueue()
        """What others want to be written."""

        self._applied = 0
        self._noted = 0
        """The offset that the control topic has as applied by this process; 0 = it has none."""

        self._note_at_s = self._report_at_s = 0.0
        self._exists = False
        """Whether there is a control topic that can be read."""

    def applied(self, pauses: PausedTopics) -> None:
        """See :class:`PauseView`. Called by the thread of work."""
        self._applied = pauses.end

    @property
    def outages(self) -> Mapping[str, OutageNote]:
        """See :class:`OutageView`."""
        return self._known.outages

    @property
    def closings(self) -> Mapping[str, OutageNote]:
        """See :class:`OutageView`."""
        return self._known.closings

    @property
    def decided(self) -> Mapping[str, OutageNote]:
        """See :class:`OutageView`."""
        return self._known.decided

    @property
    def probes(self) -> Mapping[str, ProbeLease]:
        """See :class:`ProbeView`."""
        return self._known.probes

    @property
    def shared(self) -> bool:
        """See :class:`ProbeView`."""
        return self._exists

    def publish(self, records: list[ControlRecord]) -> None:
        """See :class:`OutageView`. Safe from any thread."""
        for record in records:
            self._records.put(record)

    def read(self) -> None:
        """Read the control topic to its end. Without a topic, or without the right to read it, nothing is paused.

        Raises:
            ReaderError: Kafka does not answer.
            ControlRecordError: another program has written a record of a pause.
        """
        try:
            self._update(self._open().read_to_end().readable())
        except TopicForbiddenError as error:
            _log.warning("it is unknown what is paused: %s", error)
        except Exception:
            self._close()
            raise

    def _open(self) -> ControlTail:
        self._tail = ControlTail(self._settings.kafka, self._settings.group, self._naming.control_topic())
        return self._tail

    def run(self, ended: threading.Event) -> None:
        """Follow the topic until the event is set."""
        self._update(self._known)  # a pause ends by itself also while the topic cannot be read
        try:
            if self._tail is None:
                self._update(self._open().read_to_end())
            self._follow(ended)
        except TopicForbiddenError as error:
            _log.debug("it is unknown what is paused: %s", error)
            ended.wait(_FORBIDDEN_S)
        finally:
            self._exists = False
            self._close()

    def _follow(self, ended: threading.Event) -> None:
        while self._tail is not None and not ended.is_set():
            self._exists = self._tail.exists()
            if not self._exists:
                ended.wait(_ABSENT_S)
                continue
            topic = self._naming.control_topic()
            found = self._topics.poll([topic], {})
            if found and self._tail.about(found[topic].mark):
                self._noted = 0
                self._update(self._tail.read_to_end())
            self._update(self._tail.poll(_POLL_S))
            self._write()
            self._note()
            self._report()

    def _close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _update(self, pauses: Pauses) -> None:
        for key in pauses.damaged.keys() - self._known.damaged.keys():
            _log.error("what is paused there stays so: %s", ControlRecordError(key, pauses.damaged[key]))
        self._known = pauses
        self.tiers = pauses.tiers
        self.requests = pauses.open_requests()
        now_ms = wall_clock_ms()
        current = pauses.topics(now_ms, self._naming.ready_topic)
        if current == self.current:
            return
        if (current.group, current.topics) != (self.current.group, self.current.topics):
            text = ", ".join(map(pause_text, pauses.holding(now_ms)))
            _log.warning("paused: %s", text) if text else _log.info("nothing is paused any more")
            self._health.note("pauses", f"paused: {text}" if text else "")
        self.current = current

    def _write(self) -> None:
        """Write what others want to be written. Nothing is lost without it."""
        records = []
        with suppress(Empty):
            while True:
                records.append(self._records.get_nowait())
        try:
            if records:
                self._append(records)
        except AdminError as error:
            _log.warning("the group does not learn of an outage or of its end: %s", error)

    def _note(self) -> None:
        """Note in the control topic what this process has applied, if that has changed. Nothing is lost without it."""
        applied = self._applied
        if applied == self._noted or applied != self.current.end or monotonic_s() < self._note_at_s:
            return
        try:
            self._append([process_record(self._process, applied, wall_clock_ms())])
            self._noted = applied
        except AdminError as error:
            self._note_at_s = monotonic_s() + _NOTE_AGAIN_S
            _log.warning("`redelivery status` cannot show that this process obeys the pauses: %s", error)

    def _report(self) -> None:
        """Report in the control topic what keeps records of this process waiting. Nothing is lost without it."""
        if monotonic_s() < self._report_at_s:
            return
        self._report_at_s, now_ms = monotonic_s() + _REPORT_S, wall_clock_ms()
        text, known = self._health.faults(_SEEN_BY_OTHERS)[:REPORT_LENGTH], self._known.faults
        records = [fault_record(each, None) for each, last in known.items() if last.at_ms < now_ms - _FORGOTTEN_MS]
        records += withdrawn_requests(self._known.ended_requests(now_ms - _FORGOTTEN_MS))
        if report := next_report(known.get(self._process), text, now_ms):
            records.append(fault_record(self._process, report))
        try:
            if records:
                self._append(records)
        except AdminError as error:
            self._report_at_s = monotonic_s() + _NOTE_AGAIN_S
            _log.warning("`redelivery status` cannot show the faults of this process: %s", error)

    def withdraw(self) -> None:
        """Remove the notes of this process, because it stops."""
        records = tombstones([self._process]) if self._noted else []
        if self._process in self._known.faults:
            records.append(fault_record(self._process, None))
        if records:
            with suppress(TransportError):
                self._append(records)

    def _append(self, records: list[ControlRecord]) -> None:
        append_control(self._settings.kafka, self._naming.control_topic(), records, _WRITE_S)


@contextmanager
def watch_pauses(settings: Settings, role: str, instance: str, health: Health) -> Iterator[PauseWatch]:
    """Read the pauses, and follow them while the block runs.

    Args:
        settings: the configuration.
        role: ``worker``, ``scheduler`` or ``stream``.
        instance: the instance name of the process.
        health: gets the pauses that hold.

    Raises:
        ReaderError, ControlRecordError: as :meth:`PauseWatch.read`.
    """
    watch = PauseWatch(settings, ProcessName(role, instance), health)
    watch.read()
    consequence = "pauses cannot be followed, and the last known ones hold"
    with background_thread("pauses", watch.run, consequence, restart_s=_RESTART_S):
        yield watch
    watch.withdraw()


def pause_text(pause: Pause) -> str:
    """Return a pause as text, such as ``source orders until 2026-03-01 08:00:00 UTC, by ann: the bank is away``."""
    until = "" if pause.until_ms is None else f" until {printable_time(pause.until_ms)}"
    by, note = f", by {pause.by}" if pause.by else "", f": {pause.note}" if pause.note else ""
    return printable_line(f"{pause.target}{until}{by}{note}")
