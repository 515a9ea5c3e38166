"""`redelivery outage`: which dependencies of a group are away, and what operators say about it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.operations.pausing import AppliedPauses, control_tail, write_and_wait
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.outages import OutageNote, OutageState, outage_record
from kafka_redelivery.topology.wire.pauses import Pauses
from kafka_redelivery.transport.admin.group_members import GroupMembers


@dataclass(frozen=True, slots=True)
class DependencyState:
    """One dependency of a group, as its control topic says."""

    name: str
    sources: tuple[str, ...]
    """The sources that declare it."""

    opened: OutageNote | None
    """Its outage: the operator's, or the one that a worker has published last. ``None`` = there is none."""

    def __str__(self) -> str:
        if self.opened is None:
            return f"{self.name} is not away"
        by = self.opened.by if self.opened.operator else f"worker {self.opened.by}"
        until = self.opened.until_ms if self.opened.operator else None
        text = f"{self.name} is away since {printable_time(self.opened.since_ms)}, as {by} says"
        return text if until is None else f"{text}, until {printable_time(until)}"

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        opened = self.opened
        document: dict[str, Any] = {
            "dependency": self.name,
            "state": str(OutageState.CLOSED if opened is None else OutageState.OPEN),
            "sources": list(self.sources),
        }
        if opened is not None:
            until_ms = opened.until_ms if opened.operator else None
            document |= {"sinceMs": opened.since_ms, "untilMs": until_ms, "by": opened.by, "operator": opened.operator}
        return document


def dependency_states(settings: Settings, known: Pauses, now_ms: int) -> tuple[DependencyState, ...]:
    """Return all dependencies of the configuration."""
    return tuple(
        DependencyState(name, sources, _opened(known, name, now_ms)) for name, sources in _sources(settings).items()
    )


def _sources(settings: Settings) -> Mapping[str, tuple[str, ...]]:
    return {
        name: tuple(source.topic for source in settings.sources if name in source.dependencies)
        for name in settings.dependencies
    }


def _opened(known: Pauses, name: str, now_ms: int) -> OutageNote | None:
    decided, found = known.decided.get(name), known.outages.get(name)
    if decided is not None and decided.is_open(now_ms):
        return decided
    return found if found is not None and found.is_open(now_ms, decided) else None


def look_at_outages(settings: Settings) -> tuple[DependencyState, ...]:
    """Read the control topic, and return all dependencies. Without a topic none is known to be away.

    Raises:
        TransportError: Kafka does not answer, or refuses.
    """
    with closing(control_tail(settings)) as tail:
        known = tail.read_to_end().readable() if tail.exists() else Pauses()
    return dependency_states(settings, known, wall_clock_ms())


def unknown_dependency(settings: Settings, name: str) -> str:
    """Return what is wrong with the name of a dependency; empty if the configuration has it."""
    if name in settings.dependencies:
        return ""
    known = ", ".join(settings.dependencies) or "none"
    return f"{name} is not a dependency; the configuration has {known}"


def open_outage(
    settings: Settings, name: str, by: str, until_ms: int | None, wait_s: float, listing: GroupMembers | None = None
) -> AppliedPauses:
    """Say that a dependency is away, and wait until all processes obey.

    Args:
        settings: the configuration.
        name: the dependency.
        by: who says it.
        until_ms: when that ends by itself (epoch ms); ``None`` = with :func:`close_outage`.
        wait_s: how long to wait at most.
        listing: as of :func:`~kafka_redelivery.consumers.operations.pausing.pause`.

    Raises:
        ConsumersError: there is no control topic.
        TransportError: Kafka does not answer, or refuses.
    """

    def records(before: Pauses, now_ms: int) -> list[ControlRecord]:
        opened = _opened(before, name, now_ms)
        since_ms = now_ms if opened is None else opened.since_ms
        note = OutageNote(secrets.token_hex(8), OutageState.OPEN, by, since_ms, until_ms, operator=True)
        return [outage_record(name, note, now_ms)]

    return write_and_wait(settings, records, wait_s, listing)


def close_outage(
    settings: Settings, name: str, by: str, wait_s: float, listing: GroupMembers | None = None
) -> AppliedPauses:
    """Say that a dependency is back, and wait until all processes obey; as :func:`open_outage`.

    This ends what workers have found, too. It is written although no outage is known: a worker that cannot write to the
    control topic may have one.
    """

    def records(before: Pauses, now_ms: int) -> list[ControlRecord]:
        opened = _opened(before, name, now_ms)
        ended = OutageNote("", OutageState.OPEN, by, now_ms, None) if opened is None else opened
        note = OutageNote(ended.opening, OutageState.CLOSED, by, ended.since_ms, None, operator=True)
        return [outage_record(name, note, now_ms)]

    return write_and_wait(settings, records, wait_s, listing)
