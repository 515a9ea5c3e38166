"""Pauses: records of the control topic that stop a group, a source or a tier until they are withdrawn or have ended.

============================  ==================================  ======================================
key                           fields of the value                 written by
============================  ==================================  ======================================
``pause/group``               ``untilMs``: when the pause ends by  ``redelivery pause``; a tombstone by
``pause/source/{topic}``      itself (epoch ms), or null           ``redelivery resume``
``pause/tier/{topic}``
``process/{role}/{name}``     ``applied``: up to which offset of   each process, within two seconds after
                              this topic it obeys pauses           a change; a tombstone when it stops,
                                                                   and by the next ``pause``/``resume``
============================  ==================================  ======================================

A group that was never paused has none of these records. Versions that do not know them ignore them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.control import ControlRecord, control_record, fields_of, whole


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

    def holds(self, now_ms: int) -> bool:
        """Whether it has not ended."""
        return self.until_ms is None or now_ms < self.until_ms


class Applied(NamedTuple):
    """What a process has applied."""

    offset: int
    """Every pause and every end of one below this offset of the control topic."""

    at_ms: int
    """When it noted that (epoch ms)."""


class ProcessName(NamedTuple):
    """A process of the group: ``worker``, ``scheduler`` or ``stream``, and its instance name."""

    role: str
    instance: str

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"process/{self.role}/{self.instance}"


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
    """What a control topic says about pauses, and the tiers that it names."""

    pauses: Mapping[PauseTarget, Pause] = field(default_factory=lambda: MappingProxyType({}))
    processes: Mapping[ProcessName, Applied] = field(default_factory=lambda: MappingProxyType({}))
    end: int = 0
    """The offset behind the newest pause, or end of one; 0 = there is none."""

    tiers: frozenset[str] = frozenset()
    """The tiers that the control topic names, used or retired."""

    damaged: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Key and problem of each record that this project has not written; the record before it holds."""

    def readable(self) -> Pauses:
        """Return this, if all records could be read.

        Raises:
            ControlRecordError: one was not written by this project.
        """
        for key, problem in self.damaged.items():
            raise ControlRecordError(key, problem)
        return self

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
        for target, *_ in self.holding(now_ms):
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
                case ["tier", topic]:
                    return replace(self, tiers=self.tiers - {topic} if value is None else self.tiers | {topic})
                case _:
                    return self
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            return replace(self, damaged=_changed(self.damaged, name, str(error)))


def pause_record(target: PauseTarget, until_ms: int | None, now_ms: int) -> ControlRecord:
    """Return the record of a pause."""
    return control_record(target.key, now_ms, untilMs=until_ms)


def process_record(name: ProcessName, applied: int, now_ms: int) -> ControlRecord:
    """Return the record of a process that obeys everything below the offset ``applied``."""
    return control_record(name.key, now_ms, applied=applied)


def tombstones(of: Iterable[PauseTarget | ProcessName]) -> list[ControlRecord]:
    """Return the records that withdraw pauses, or what processes have noted."""
    return [ControlRecord(each.key.encode(), None) for each in of]


def _changed(known: Mapping[Any, Any], key: object, value: object | None) -> Mapping[Any, Any]:
    if value is None and key not in known:
        return known
    others = {each: known[each] for each in known if each != key}
    return others if value is None else {**others, key: value}


def _pause(target: PauseTarget, value: bytes | None) -> Pause | None:
    if value is None:
        return None
    fields = fields_of(value)
    until = fields["untilMs"]
    since_ms = whole(fields["firstSeenMs"], most=LATEST_MS)
    return Pause(target, since_ms, None if until is None else whole(until, most=LATEST_MS))


def _applied(value: bytes | None) -> Applied | None:
    if value is None:
        return None
    fields = fields_of(value)
    return Applied(whole(fields["applied"]), whole(fields["firstSeenMs"], most=LATEST_MS))
