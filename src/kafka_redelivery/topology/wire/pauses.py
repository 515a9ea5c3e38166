"""Pauses, and what processes report: records of the control topic.

A pause stops a group, a source or a tier until it is withdrawn or has ended.

============================  ==================================  ======================================
key                           fields of the value                 written by
============================  ==================================  ======================================
``pause/group``               ``untilMs``: when the pause ends by  ``redelivery pause``; a tombstone by
``pause/source/{topic}``      itself (epoch ms), or null; ``by``   ``redelivery resume``
``pause/tier/{topic}``        and ``note``: who paused, and why
``process/{role}/{name}``     ``applied``: up to which offset of   each process, within two seconds after
                              this topic it obeys pauses           a change; a tombstone when it stops,
                                                                   and by the next ``pause``/``resume``
``fault/{role}/{name}``       ``text``: what keeps records         each process, while something does (see
                              waiting, and how to fix it; lines;   :func:`next_report`); a tombstone when nothing
                              ``untilMs``: how long it holds       does, when it stops, and by others after an hour
============================  ==================================  ======================================

A group that was never paused has no record of a pause or of a process. Versions that do not know them ignore them.
:mod:`kafka_redelivery.topology.wire.outages` has the records of outages, and
:mod:`kafka_redelivery.topology.wire.waiting` those of what operators want done with waiting records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.control import ControlRecord, control_record, fields_of, whole
from kafka_redelivery.topology.wire.outages import OutageNote, OutageState, ProbeLease, read_lease, read_outage
from kafka_redelivery.topology.wire.waiting import RequestKey, WaitingDone, WaitingRequest, read_done, read_request


class PauseScope(StrEnum):
    """What a pause stops."""

    GROUP = "group"
    SOURCE = "source"
    """A source and its ready topic."""

    TIER = "tier"


class PauseTarget(NamedTuple):
    """What one pause stops: the group, or one topic."""

    scope: PauseScope
    topic: str = ""
    """The source or the tier; empty for the group."""

    def __str__(self) -> str:
        return f"{self.scope} {self.topic}".rstrip()

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"pause/{self.scope}/{self.topic}".rstrip("/")


class Pause(NamedTuple):
    """A pause that was not withdrawn. It may have ended."""

    target: PauseTarget
    since_ms: int
    """When it was written (epoch ms)."""

    until_ms: int | None
    """When it ends by itself (epoch ms); ``None`` = when it is withdrawn."""

    by: str = ""
    """Who paused; empty if an earlier version did."""

    note: str = ""
    """Why, in the words of who paused."""

    def holds(self, now_ms: int) -> bool:
        """Whether it has not ended."""
        return self.until_ms is None or now_ms < self.until_ms


class Applied(NamedTuple):
    """What a process has applied."""

    offset: int
    """Every pause and every end of one below this offset of the control topic."""

    at_ms: int
    """When it noted that (epoch ms)."""


_DAMAGED = (ValueError, TypeError, LookupError, RecursionError)
"""What the functions raise that read a record which this project has not written."""

_FIRST_REPORT_MS = 180_000
"""How long a report holds: the first one of a fault, and what is said later of a fault that has changed."""

_LONGEST_REPORT_MS = 1_800_000

REPORT_LENGTH = 4_000
"""How many characters a report has at most."""


class Reported(NamedTuple):
    """What a process has reported."""

    text: str
    """What keeps records waiting, and how to fix it."""

    at_ms: int
    """When it was reported last (epoch ms)."""

    until_ms: int
    """How long that holds (epoch ms); the process has died if it has not reported again by then."""


def next_report(last: Reported | None, text: str, now_ms: int) -> Reported | None:
    """Return what a process reports now; ``None`` if its last report is good enough.

    It reports again after a third of the time for which the last report holds, and at once that something began or
    that nothing is wrong any more. A fault that lasts is reported ever more seldom, because Kafka compacts no segment
    before it is full or a week old, and each process reads the whole topic when it starts.

    Args:
        last: its last report.
        text: what keeps records waiting; empty if nothing does.
        now_ms: epoch ms.
    """
    if last is None or not text:
        return Reported(text, now_ms, now_ms + _FIRST_REPORT_MS) if last or text else None
    same, held_ms = text == last.text, last.until_ms - last.at_ms
    if now_ms - last.at_ms < (held_ms if same else _FIRST_REPORT_MS) // 3:
        return None
    return Reported(text, now_ms, now_ms + (min(2 * held_ms, _LONGEST_REPORT_MS) if same else _FIRST_REPORT_MS))


class ProcessName(NamedTuple):
    """A process of the group: ``worker``, ``scheduler`` or ``stream``, and its instance name."""

    role: str
    instance: str

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"process/{self.role}/{self.instance}"

    @property
    def fault_key(self) -> str:
        """The key of the record with its faults."""
        return f"fault/{self.role}/{self.instance}"


@dataclass(frozen=True, slots=True)
class PausedTopics:
    """What a process must not handle now."""

    group: bool = False
    """Whether everything is paused."""

    topics: frozenset[str] = frozenset()
    """The paused topics: sources with their ready topics, and tiers."""

    end: int = 0
    """The offset behind the newest change; 0 = there has never been one."""

    def __bool__(self) -> bool:
        return self.group or bool(self.topics)

    def covers(self, topic: str) -> bool:
        """Whether the records of a topic must wait."""
        return self.group or topic in self.topics


@dataclass(frozen=True, slots=True)
class Pauses:
    """What a control topic says about pauses and outages, and the tiers that it names."""

    pauses: Mapping[PauseTarget, Pause] = field(default_factory=lambda: MappingProxyType({}))
    processes: Mapping[ProcessName, Applied] = field(default_factory=lambda: MappingProxyType({}))
    faults: Mapping[ProcessName, Reported] = field(default_factory=lambda: MappingProxyType({}))
    end: int = 0
    """The offset behind the newest pause, or end of one, or decision about an outage; 0 = there is none."""

    tiers: frozenset[str] = frozenset()
    """The tiers that the control topic names, used or retired."""

    outages: Mapping[str, OutageNote] = field(default_factory=lambda: MappingProxyType({}))
    """The newest opening or closing of each dependency's outage by a worker."""

    closings: Mapping[str, OutageNote] = field(default_factory=lambda: MappingProxyType({}))
    """The newest closing of each, also if it was opened again since: a worker looks only now and then."""

    decided: Mapping[str, OutageNote] = field(default_factory=lambda: MappingProxyType({}))
    """The newest opening or closing of each dependency's outage by an operator."""

    probes: Mapping[str, ProbeLease] = field(default_factory=lambda: MappingProxyType({}))
    """The newest lease of each dependency's probe."""

    requests: Mapping[RequestKey, WaitingRequest] = field(default_factory=lambda: MappingProxyType({}))
    """What operators want done with waiting records, also what has ended."""

    done: Mapping[RequestKey, WaitingDone] = field(default_factory=lambda: MappingProxyType({}))
    """How far that is, as far as anything was done."""

    damaged: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Key and problem of each pause and note that this project has not written; the record before it holds."""

    def readable(self) -> Pauses:
        """Return this, if all records could be read.

        Raises:
            ControlRecordError: one was not written by this project.
        """
        for key, problem in self.damaged.items():
            raise ControlRecordError(key, problem)
        return self

    def open_requests(self) -> list[WaitingRequest]:
        """Return the requests that have not ended, the oldest first."""
        found = [each for key, each in self.requests.items() if key not in self.done or not self.done[key].ended]
        return sorted(found, key=lambda each: each.place)

    def ended_requests(self, before_ms: int) -> list[RequestKey]:
        """Return the requests that ended, or had to, before a time (epoch ms).

        Those of a partition that does not exist any more have no owner that ends them, nor has the last step of one
        that was cancelled.
        """
        late = {key for key, each in self.requests.items() if each.until_ms < before_ms}
        done = {key for key, each in self.done.items() if each.ended or key not in self.requests}
        return sorted(late | {key for key in done if self.done[key].at_ms < before_ms})

    def holding(self, now_ms: int) -> list[Pause]:
        """Return the pauses that have not ended, in the order of their targets."""
        return [pause for _, pause in sorted(self.pauses.items()) if pause.holds(now_ms)]

    def topics(self, now_ms: int, ready_topic: Callable[[str], str]) -> PausedTopics:
        """Return what must not be handled now.

        Args:
            now_ms: epoch ms.
            ready_topic: returns the ready topic of a source.
        """
        topics: set[str] = set()
        group = False
        for pause in self.holding(now_ms):
            target = pause.target
            match target.scope:
                case PauseScope.GROUP:
                    group = True
                case PauseScope.SOURCE:
                    topics |= {target.topic, ready_topic(target.topic)}
                case PauseScope.TIER:
                    topics.add(target.topic)
        return PausedTopics(group, frozenset(topics), self.end)

    def with_record(self, key: bytes | None, value: bytes | None, offset: int) -> Pauses:
        """Return the state after one more record of the topic; a record about something else changes nothing."""
        name = repr(key or b"")[2:-1]
        try:
            match (key or b"").decode(errors="replace").split("/"):
                case ["pause", scope, *topic] if scope in set(PauseScope) and len(topic) == (scope != PauseScope.GROUP):
                    target = PauseTarget(PauseScope(scope), *topic)
                    pauses, damaged = _changed(self.pauses, target, _pause(target, value)), self.damaged
                    return replace(self, pauses=pauses, end=offset + 1, damaged=_changed(damaged, name, None))
                case ["process", role, instance]:
                    changed = _changed(self.processes, ProcessName(role, instance), _applied(value))
                    return replace(self, processes=changed, damaged=_changed(self.damaged, name, None))
                case ["fault", role, instance]:
                    return replace(self, faults=_changed(self.faults, ProcessName(role, instance), _reported(value)))
                case ["outage", dependency]:
                    note = read_outage(value, offset)
                    closes = note is not None and note.state is OutageState.CLOSED
                    closings = _changed(self.closings, dependency, note) if closes else self.closings
                    return replace(self, outages=_changed(self.outages, dependency, note), closings=closings)
                case ["outage", dependency, "operator"]:
                    changed = _changed(self.decided, dependency, read_outage(value, offset, operator=True))
                    return replace(self, decided=changed, end=offset + 1)
                case ["probe", dependency]:
                    return replace(self, probes=_changed(self.probes, dependency, read_lease(value)))
                case ["waiting", number, topic, digits, *of] if of in ([], ["done"]) and _is_number(digits):
                    return self._with_request(RequestKey(number, topic, int(digits)), value, None if of else offset)
                case ["tier", topic]:
                    return replace(self, tiers=self.tiers - {topic} if value is None else self.tiers | {topic})
                case _:
                    return self
        except _DAMAGED as error:
            return replace(self, damaged=_changed(self.damaged, name, str(error)))

    def _with_request(self, key: RequestKey, value: bytes | None, place: int | None) -> Pauses:
        """Return the state after a record of a request, or if it has no place one of a step.

        A damaged request counts as withdrawn, because nothing has to be done about it, and a damaged step as none.
        """
        if place is not None:
            try:
                request = read_request(key, value, place)
            except _DAMAGED:
                request = None
            return replace(self, requests=_changed(self.requests, key, request))
        try:
            step = read_done(value)
        except _DAMAGED:
            return self
        return replace(self, done=_changed(self.done, key, step and self.done.get(key, WaitingDone()).after(step)))


def pause_record(target: PauseTarget, until_ms: int | None, now_ms: int, by: str = "", note: str = "") -> ControlRecord:
    """Return the record of a pause; ``by`` and ``note``: who pauses, and why."""
    return control_record(target.key, now_ms, untilMs=until_ms, by=by, note=note)


def process_record(name: ProcessName, applied: int, now_ms: int) -> ControlRecord:
    """Return the record of a process that obeys everything below the offset ``applied``."""
    return control_record(name.key, now_ms, applied=applied)


def fault_record(name: ProcessName, reported: Reported | None) -> ControlRecord:
    """Return the record of what keeps records of a process waiting; without a text the one that withdraws it."""
    if reported is None or not reported.text:
        return ControlRecord(name.fault_key.encode(), None)
    return control_record(name.fault_key, reported.at_ms, text=reported.text, untilMs=reported.until_ms)


def tombstones(of: Iterable[PauseTarget | ProcessName]) -> list[ControlRecord]:
    """Return the records that withdraw pauses, or what processes have noted."""
    return [ControlRecord(each.key.encode(), None) for each in of]


def _changed(known: Mapping[Any, Any], key: object, value: object | None) -> Mapping[Any, Any]:
    if value is None and key not in known:
        return known
    others = {each: known[each] for each in known if each != key}
    return others if value is None else {**others, key: value}


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) < len(str(LONG_MAX))


def _pause(target: PauseTarget, value: bytes | None) -> Pause | None:
    if value is None:
        return None
    fields = fields_of(value)
    until = fields["untilMs"]
    since_ms = whole(fields["firstSeenMs"], most=LATEST_MS)
    who, why = (str(fields.get(name, "")) for name in ("by", "note"))
    return Pause(target, since_ms, None if until is None else whole(until, most=LATEST_MS), who, why)


def _applied(value: bytes | None) -> Applied | None:
    if value is None:
        return None
    fields = fields_of(value)
    return Applied(whole(fields["applied"]), whole(fields["firstSeenMs"], most=LATEST_MS))


def _reported(value: bytes | None) -> Reported | None:
    """Read a report; a damaged one counts as withdrawn, because no process has to obey it."""
    if value is None:
        return None
    try:
        fields = fields_of(value)
        at_ms, until_ms = (whole(fields[name], most=LATEST_MS) for name in ("firstSeenMs", "untilMs"))
        return Reported(str(fields["text"]), at_ms, until_ms)
    except _DAMAGED:
        return None
