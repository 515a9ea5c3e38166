"""The outages of what handlers depend on: which records wait, when one is tried, and how the load rises again.

A worker opens and closes an outage for itself. It learns from the control topic that others have closed theirs, and
tries soon then; see :mod:`kafka_redelivery.topology.wire.outages`.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import Final, Protocol

from kafka_redelivery.consumers.clock import Clock, monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.probe import Probe
from kafka_redelivery.consumers.flow.work_item import MetOutage, WorkItem
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.config.settings import DependencySection
from kafka_redelivery.topology.outage import Outage, Phase
from kafka_redelivery.topology.policy.decision import FailureKind
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.outages import OutageNote, OutageState, outage_record

_log = logging.getLogger(__name__)

SPREAD_S: Final = 3.0
"""In how many seconds all workers try again after one of them has closed an outage."""

_REFRESH_S: Final = 60.0
_HOLDS_MS: Final = 180_000
"""How long an opening holds in the control topic; it is written again while the outage lasts."""

_ARMED_AGAIN_S: Final = 60.0
"""After so long with successes and without a failure of an outage that took too long, the next one opens an outage."""

_MAX_KEYS: Final = 1000
"""How many keys are remembered for which something is away; of more, those that began to fail first are forgotten."""


class OutageView(Protocol):
    """What the control topic says about outages. Another object when it changes."""

    @property
    def outages(self) -> Mapping[str, OutageNote]:
        """The newest opening or closing of each dependency by a worker."""
        ...

    @property
    def closings(self) -> Mapping[str, OutageNote]:
        """The newest closing of each dependency by a worker, also if it was opened again since."""
        ...

    @property
    def decided(self) -> Mapping[str, OutageNote]:
        """The newest opening or closing of each dependency by an operator."""
        ...

    def publish(self, records: list[ControlRecord]) -> None:
        """Write records soon, in another thread. Nothing is lost without them."""
        ...


class Threshold:
    """Which share of the latest calls has to find a dependency away before its outage opens."""

    def __init__(self, text: str | None) -> None:
        """Begin to count; ``text``: such as ``50% of 100``, or ``None`` if one call is enough."""
        share, _, number = (text or "").partition("% of ")
        self._share = int(share or 0) / 100
        self._calls: deque[bool] | None = deque(maxlen=int(number)) if number else None

    def count(self, succeeded: int, met: int = 0) -> None:
        """Count calls."""
        if self._calls is not None:
            self._calls.extend([False] * min(succeeded, self._calls.maxlen or 0))
            self._calls.extend([True] * met)

    def forget(self) -> None:
        """Forget the calls of an outage that is over."""
        if self._calls is not None:
            self._calls.clear()

    @property
    def reached(self) -> bool:
        """Whether enough calls have found it away. One is enough without a threshold."""
        calls = self._calls
        return calls is None or (len(calls) == calls.maxlen and sum(calls) >= self._share * len(calls))


@dataclass(slots=True, eq=False)
class _Dependency:
    """One dependency, as this worker sees it."""

    name: str
    section: DependencySection
    full: int
    """How many records are in flight at most without an outage."""

    outage: Outage
    threshold: Threshold
    probe: Probe | None = None
    opening: str = ""
    """The id of the opening that this worker has published; empty if it has not."""

    since_ms: int = 0
    """When it opened (epoch ms), for people."""

    published_s: float = 0.0
    over_ms: int | None = None
    """When the last outage was over, its ramp included (epoch ms); ``None`` = there was none, or it lasts."""

    seen: int = -1
    """The offset in the control topic up to which closings by workers were taken into account."""

    seen_of_operators: int = -1
    """The same for notes of operators."""

    by_operator: bool = False
    """Whether an operator has opened it, so that nothing is tried before an operator closes it."""

    until_ms: int | None = None
    """When that opening ends by itself (epoch ms); ``None`` = when an operator closes it."""

    closed_elsewhere: bool = False
    """Whether another worker has closed its outage since the last try of this one."""

    failing_s: float | None = None
    """When a record failed last because the outage has taken too long (monotonic); ``None`` = none does."""

    succeeded: bool = False
    """Whether a record was handled since then."""

    @property
    def asks(self) -> bool:
        """Whether its probe is called, and not a record tried."""
        probe = self.probe
        return probe is not None and not (self.closed_elsewhere or self.by_operator or probe.hangs)


@dataclass(kw_only=True, eq=False)
class Outages:
    """All dependencies of one worker. Only its polling thread uses it.

    A worker that joins while the control topic has an outage as open begins half open.
    """

    sections: InitVar[Mapping[str, DependencySection]]
    full: InitVar[Mapping[str, int]]
    """How many records are in flight at most that need each of them."""

    probes: InitVar[Mapping[str, Probe]]
    """Those that are configured."""

    view: OutageView
    health: Health
    instance: str
    """The name of this worker."""

    draw: Callable[[], float]
    """Draws from [0, 1), to spread what several workers do."""

    new_id: Callable[[], str]
    """Returns an id that no other opening has."""

    clock_s: Callable[[], float] = monotonic_s
    clock_ms: Clock = wall_clock_ms
    active: bool = field(default=False, init=False)
    """Whether one is away, or comes back. While none is, there is nothing to ask."""

    def __post_init__(
        self,
        sections: Mapping[str, DependencySection],
        full: Mapping[str, int],
        probes: Mapping[str, Probe],
    ) -> None:
        """Read what the control topic says."""
        self._met: dict[tuple[AssignedPartition, int], str] = {}
        """The records that met an outage and wait, by partition and offset."""

        self.waiting: Mapping[str, int] = {}
        """How many records of a query's micro-batch wait, by dependency; empty in a worker, which does not count."""

        self._keys: dict[tuple[str, str, bytes | None], tuple[float, AssignedPartition]] = {}
        """When the first record of a key failed that waits for a dependency alone (monotonic), and where the last one
        did, by dependency, source and key; minus infinity once it has taken too long. A success of the key ends it."""

        self._known: Mapping[str, OutageNote] = {}
        self._decided: Mapping[str, OutageNote] = {}
        self._dependencies = {
            name: _Dependency(
                name, section, full[name], Outage(_backoff(section)), Threshold(section.threshold), probes.get(name)
            )
            for name, section in sections.items()
        }
        self._has_threshold = any(section.threshold for section in sections.values())
        self._follow(joins=True)

    @property
    def counts(self) -> bool:
        """Whether outcomes matter also while nothing is away."""
        return self._has_threshold or bool(self._keys)

    @property
    def away(self) -> list[str]:
        """The dependencies that are away."""
        return [each.name for each in self._dependencies.values() if _is_away(each.outage)]

    @property
    def states(self) -> dict[str, bool]:
        """Whether each dependency is away."""
        away = self.away
        return {name: name in away for name in self._dependencies}

    def delayed_ms(self, needs: Iterable[str]) -> int | None:
        """Return how late a redelivery is at least that an outage has delayed; ``None`` if none has.

        It was due before the outage of a dependency was over, ramp included. The time of its own call is not
        considered, so it counts as our own delay if it was due within that time before the end.

        Args:
            needs: the dependencies that its source declares.
        """
        now_ms, found = self.clock_ms(), None
        for each in map(self._dependencies.__getitem__, needs):
            if each.outage.opened_s is not None:
                return 0
            if each.over_ms is not None:
                since_ms = max(0, now_ms - each.over_ms)
                found = since_ms if found is None else min(found, since_ms)
        return found

    def fails(self, met: MetOutage) -> bool:
        """Whether a record that found a dependency away has failed all the same.

        Too few of the latest calls have found it so, or its outage takes longer than ``maxOutage``.
        """
        return self._fails(self._dependencies[met.failure.dependency])

    def _fails(self, each: _Dependency) -> bool:
        each.threshold.count(0, 1)
        if each.failing_s is not None:
            each.failing_s, each.succeeded = self.clock_s(), False
            return True
        return each.outage.opened_s is None and not each.threshold.reached

    def judge_keys(self, item: WorkItem) -> None:
        """Let those records of an item fail after all that would wait alone by their keys, as in :meth:`fails`.

        ``maxOutage`` counts for each key of a source from its first failure.
        """
        for number, (index, failure) in enumerate(item.failures):
            if failure.key_only:
                each = self._dependencies[failure.dependency]
                if self._fails(each) or self._key_fails(each, item.lane.assigned, item.messages[index].key()):
                    failed = failure._replace(kind=FailureKind.RAISED, after_ms=None, key_only=False)
                    item.failures[number] = (index, failed)

    def _key_fails(self, each: _Dependency, assigned: AssignedPartition, key: bytes | None) -> bool:
        longest, source = each.section.max_outage, assigned.route.source
        if longest is None:
            return False
        now_s = self.clock_s()
        since_s, last = self._keys.get((each.name, source, key), (now_s, assigned))
        if last.closed:  # another worker may have handled the key in the meantime
            since_s = now_s
        self._keys[each.name, source, key] = since_s, assigned
        if len(self._keys) > _MAX_KEYS:
            del self._keys[next(iter(self._keys))]
        if now_s - since_s <= longest.total_seconds():
            return False
        if since_s > -math.inf:
            self._keys[each.name, source, key] = -math.inf, assigned
            text = "%s has been away for longer than maxOutage, %g s, for a key of %s: the redelivery policy decides"
            _log.error(text, each.name, longest.total_seconds(), source)
        return True

    def met(self, assigned: AssignedPartition, offset: int, met: MetOutage) -> bool:
        """A call found a dependency away. The record is back in its lane.

        Returns:
            Whether an outage has opened, so that the slots should return what they have.
        """
        each, now_s = self._dependencies[met.failure.dependency], self.clock_s()
        if not assigned.closed:
            self._met[assigned, offset] = each.name
        before = each.outage
        outage = before.failed(now_s, self.draw(), began_s=met.began_s)
        if outage is before:
            return False
        if met.failure.after_ms is not None:
            outage = outage.postponed(now_s + met.failure.after_ms / 1000)
        each.outage, each.closed_elsewhere = outage, False
        if each.probe is not None:
            each.probe.forget()  # an answer from before this call says nothing
        if before.opened_s is None:
            each.since_ms = self.clock_ms()
            _log.warning("%s is away: %s; the records that need it wait, uncounted", each.name, met.failure.cause)
        self._changed()
        self._publish(each, OutageState.OPEN)
        return True

    def handled(
        self, item: WorkItem, needs: Collection[str], may_try: Callable[[AssignedPartition, str], bool]
    ) -> None:
        """Records have got their outcomes. One that had met an outage, and succeeded, ends it.

        Args:
            item: the records.
            needs: the dependencies that their source declares.
            may_try: whether a record of a partition could be handed out to see whether a dependency is back.
        """
        failed = {index for index, _ in item.failures}
        others = 0
        for index, message in enumerate(item.messages[: item.position]):
            succeeded = index not in failed
            met = bool(self._met) and self.tried(item.lane.assigned, message.offset(), succeeded=succeeded)
            others += not met and succeeded
            for need in needs if self._keys and succeeded else ():
                self._keys.pop((need, item.lane.assigned.route.source, message.key()), None)
        if others:
            self.others_handled(needs, others, may_try)

    def forget_met(self) -> None:
        """Forget which records have met an outage: all are handed out again, and say so if they meet it again."""
        self._met.clear()

    def tried(self, assigned: AssignedPartition, offset: int, *, succeeded: bool) -> bool:
        """A record has its outcome. Return whether it had met an outage; if it succeeded, that is over."""
        name = self._met.pop((assigned, offset), None)
        if name is not None and succeeded:
            self._answered(self._dependencies[name], "a record that had waited was handled")
        return name is not None

    def others_handled(
        self, needs: Iterable[str], others: int, may_try: Callable[[AssignedPartition, str], bool]
    ) -> None:
        """Records have succeeded that had met no outage; otherwise as :meth:`handled`."""
        for name in needs:
            each = self._dependencies[name]
            each.threshold.count(others)
            each.succeeded = True
            # It may never have called what is away. Without a record that has, there is nothing better to go by.
            if each.outage.opened_s is None or each.by_operator:
                continue
            if not any(met == name and may_try(assigned, name) for (assigned, _), met in self._met.items()):
                each.outage = each.outage.answered(self.clock_s())
                self._changed()

    def _answered(self, each: _Dependency, why: str) -> None:
        """Let the load rise, and tell others."""
        outage = each.outage.answered(self.clock_s())
        if outage is each.outage or each.by_operator:
            return
        each.outage = outage
        away_s = max(0, self.clock_ms() - each.since_ms) / 1000
        met = sum(name == each.name for name in self._met.values())
        waiting = f"{self.waiting[each.name]} records" if self.waiting else f"{met} records that met its outage"
        text = "%s is back after %.0f s: %s; %s wait, and the load rises step by step"
        _log.warning(text, each.name, away_s, why, waiting)
        self._changed()
        self._publish(each, OutageState.CLOSED)

    def turn(self) -> None:
        """Look at the control topic, at the time and at the probes. Called once a turn of the polling thread."""
        if self.view.outages is not self._known or self.view.decided is not self._decided:
            self._follow(joins=False)
        if self.active:
            now_s = self.clock_s()
            if any(assigned.closed for assigned, _ in self._met):
                self._met = {key: name for key, name in self._met.items() if not key[0].closed}
            for each in self._dependencies.values():
                if each.failing_s is not None and each.succeeded and now_s - each.failing_s > _ARMED_AGAIN_S:
                    each.failing_s = None
                    _log.info("%s answers again: records wait in its next outage", each.name)
                    self._changed()
                if each.outage.opened_s is not None:
                    self._look(each, each.outage.opened_s, now_s)

    def _look(self, each: _Dependency, opened_s: float, now_s: float) -> None:
        longest, phase = each.section.max_outage, each.outage.phase(now_s, each.full)
        if longest is not None and now_s - opened_s > longest.total_seconds() and phase is not Phase.RAMPING:
            text = "%s has been away for longer than maxOutage, %g s: the redelivery policy decides about its failures"
            _log.error(text, each.name, longest.total_seconds())
            each.failing_s, each.succeeded, each.by_operator = now_s, False, False
            self._end(each, Outage(_backoff(each.section)))
        elif phase is Phase.CLOSED:
            self._end(each, each.outage.settled(now_s, each.full))
        elif each.by_operator:
            if each.until_ms is not None and self.clock_ms() >= each.until_ms:
                each.by_operator = False
                _log.warning(
                    "%s is tried again: the time for which an operator has opened its outage is over", each.name
                )
                self._changed()
        elif phase is Phase.HALF_OPEN and each.closed_elsewhere and each.name not in self._met.values():
            # This worker has no record that met it, and perhaps none at all. The load rises from one record, too.
            each.outage = each.outage.answered(now_s)
            self._changed()
        elif phase is Phase.HALF_OPEN and each.asks and each.probe is not None:
            self._ask(each, each.probe, now_s)
        elif phase is Phase.OPEN and each.opening and now_s - each.published_s > _REFRESH_S:
            self._publish(each, OutageState.OPEN)

    def _end(self, each: _Dependency, outage: Outage) -> None:
        each.outage, each.over_ms = outage, self.clock_ms()
        each.threshold.forget()
        if each.probe is not None:
            each.probe.forget()
        self._met = {key: name for key, name in self._met.items() if name != each.name}
        self._changed()

    def _ask(self, each: _Dependency, probe: Probe, now_s: float) -> None:
        answer = probe.take_answer()
        if answer is None:
            probe.ask(each.outage.backoff.pause_s)
        elif answer:
            self._answered(each, "its probe has answered")
        else:
            each.outage = each.outage.failed(now_s, self.draw(), began_s=now_s)

    def limit(self, name: str) -> int | None:
        """Return how many records that need a dependency may be in flight; ``None`` = any number."""
        each = self._dependencies[name]
        if each.outage.opened_s is None:
            return None
        now_s = self.clock_s()
        asks = each.asks and each.outage.phase(now_s, each.full) is Phase.HALF_OPEN
        return 0 if each.by_operator or asks else each.outage.limit(now_s, each.full)

    @property
    def to_try(self) -> tuple[AssignedPartition, int] | None:
        """A record that met an outage whose pause is over; ``None`` = there is none."""
        now_s, every = self.clock_s(), self._dependencies.values()
        due = {each.name for each in every if each.outage.phase(now_s, each.full) is Phase.HALF_OPEN}
        return next((key for key, name in self._met.items() if name in due), None)

    @property
    def since_answer_s(self) -> dict[str, float]:
        """The dependencies with an outage, each with the seconds since it has answered; 0 = it has not."""
        now_s, every = self.clock_s(), self._dependencies.values()
        since = {each.name: each.outage.answered_s for each in every if each.outage.opened_s is not None}
        return {name: 0.0 if at_s is None else now_s - at_s for name, at_s in since.items()}

    @property
    def failing(self) -> frozenset[str]:
        """The dependencies about whose failures the redelivery policy decides, because their outage takes too long."""
        return frozenset(each.name for each in self._dependencies.values() if each.failing_s is not None)

    def _follow(self, *, joins: bool) -> None:
        """Take what is new in the control topic into account."""
        self._known, self._decided, now_ms = self.view.outages, self.view.decided, self.clock_ms()
        for each in self._dependencies.values():
            decided, note = self._decided.get(each.name), self._known.get(each.name)
            closing = self.view.closings.get(each.name)
            if decided is not None and decided.offset > each.seen_of_operators:
                each.seen_of_operators = decided.offset
                self._obey(each, decided, now_ms)
            if joins and note is not None and each.outage.opened_s is None and note.is_open(now_ms, decided):
                self._join(each, note)
            if closing is not None and closing.offset > each.seen:
                each.seen = closing.offset
                if not joins and closing.by != self.instance:
                    soon = each.outage.closed_elsewhere(self.clock_s(), self.draw(), SPREAD_S)
                    each.outage, each.closed_elsewhere = soon, True
        self._changed()

    def _obey(self, each: _Dependency, decided: OutageNote, now_ms: int) -> None:
        """Do what an operator has decided."""
        if decided.state is OutageState.CLOSED:
            each.by_operator = False
            self._answered(each, f"{decided.by} has closed its outage")
        elif decided.is_open(now_ms):
            each.by_operator, each.until_ms = True, decided.until_ms
            self._join(each, decided)
            each.outage = replace(each.outage, answered_s=None)

    def _join(self, each: _Dependency, note: OutageNote) -> None:
        """Begin with an outage that another worker or an operator has opened."""
        if each.outage.opened_s is None:
            each.since_ms = note.since_ms
            _log.warning("%s is away, as %s says; the records that need it wait, uncounted", each.name, note.by)
        each.outage = each.outage.joined(self.clock_s())

    def _publish(self, each: _Dependency, state: OutageState) -> None:
        """Tell others of an opening, or of the end of one that they were told of."""
        if state is OutageState.OPEN:
            each.opening = each.opening or self.new_id()
        if not each.opening:
            return
        now_ms = self.clock_ms()
        until_ms = now_ms + _HOLDS_MS if state is OutageState.OPEN else None
        note = OutageNote(each.opening, state, self.instance, each.since_ms, until_ms)
        self.view.publish([outage_record(each.name, note, now_ms)])
        each.published_s = self.clock_s()
        if state is OutageState.CLOSED:
            each.opening = ""

    def _changed(self) -> None:
        every = self._dependencies.values()
        self.active = any(each.outage.opened_s is not None or each.failing_s is not None for each in every)
        for noted, by_operator in (("outages", False), ("decided", True)):
            away = [each.name for each in every if each.by_operator is by_operator and _is_away(each.outage)]
            lines = [f"{name} is away; the records that need it wait, uncounted" for name in away]
            self.health.note(noted, "\n".join(lines))


def _is_away(outage: Outage) -> bool:
    return outage.opened_s is not None and outage.answered_s is None


def _backoff(section: DependencySection) -> Backoff:
    return Backoff(section.first_pause.total_seconds(), section.longest_pause.total_seconds())
