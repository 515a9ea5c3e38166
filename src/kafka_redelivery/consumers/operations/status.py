"""`redelivery status`: one screen about a group, from a bounded number of requests and records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.operations.acting import RequestState, request_states
from kafka_redelivery.consumers.operations.outages import DependencyState, dependency_states
from kafka_redelivery.consumers.operations.pausing import (
    AppliedPauses,
    Owners,
    control_tail,
    observed,
    owners_of,
)
from kafka_redelivery.consumers.operations.waiting import (
    Positions,
    Ranges,
    Report,
    configured_tiers,
    due_ms,
    hidden_topics,
    last_failure,
    open_since_ms,
    partitions_of,
    read_unfinished,
    shares,
)
from kafka_redelivery.topology.cluster.offset_check import created_again
from kafka_redelivery.topology.cluster.plan import needs_scheduler, scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.cluster_admin import TIMEOUT_S, ClusterAdmin
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.admin.partition_offsets import CommittedOffsets, PartitionOffsets
from kafka_redelivery.transport.admin.topics import topic_marks
from kafka_redelivery.transport.client_config import admin_config
from kafka_redelivery.transport.protocols import Partition

_READ_AT_MOST = 10_000
"""How many waiting records are read for their due times."""

_COUNT_AT_MOST = 1_000
"""How many unfinished records of sources and ready topics are read, so that partitions with few are counted exactly."""

_CAUSES = 3
"""How many causes are shown of each tier."""

_OPEN_MS = 60_000
"""Twice as long as a transaction of this project may be open by default."""

_OPEN_AT_MOST = 20
"""Of how many partitions the first record of an open transaction is read."""

_OVERDUE_MS = 60_000

_BOUNDS_S = {"overdue": 0.0, "within 1m": 60.0, "within 1h": 3600.0, "later": float("inf")}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of one of the two groups."""

    group: str
    name: str
    """Its instance name; of a dynamic member its member id."""

    partitions: int


@dataclass(frozen=True, slots=True)
class TopicBacklog:
    """What is not finished in one topic."""

    topic: str
    role: str
    """``source``, ``ready`` or ``tier``."""

    records: int
    """How many records wait; if not :attr:`exact`, transaction markers and records finished out of order count, too."""

    exact: bool = field(default=False, kw_only=True)
    """Whether these were read, and thus counted."""

    due: Mapping[str, int] = field(default_factory=dict)
    """The waiting records that were read of a tier: ``overdue``, due ``within 1m``, ``within 1h``, ``later``."""

    first_due_ms: int | None = None
    """The earliest of these due times (epoch ms)."""

    read: int = 0
    """How many waiting records of a tier were read."""

    causes: Mapping[str, int] = field(default_factory=dict)
    """Classes of the exceptions with which most of these failed the last time."""

    due_ms: tuple[int, ...] = ()
    """The due times of the waiting records that were read (epoch ms), the earliest first."""

    finished: int = 0
    """Sum of the first offsets that are not finished. Between two looks it grows by what was handled."""

    end: int = 0
    """Sum of the end offsets. Between two looks it grows by what was added."""

    hidden: int = 0
    """At most so many more are in or behind open transactions: no process sees them yet."""


class WaitsForDependency(NamedTuple):
    """A dependency, and what waits while it is away."""

    state: DependencyState
    records: int
    """How many records of its sources and their ready topics are not finished; see :attr:`TopicBacklog.exact`."""

    def __str__(self) -> str:
        if self.state.opened is None:
            return str(self.state)
        return f"{self.state}; at most {self.records:,} records of {', '.join(self.state.sources)} wait"


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One screen."""

    group: str
    at_ms: int
    pausing: AppliedPauses
    members: tuple[Member, ...]
    backlogs: tuple[TopicBacklog, ...]
    """Sources, ready topics, then the mixed topic and the tiers from the shortest delay to the longest."""

    dead_letters: Mapping[str, int]
    """By dead-letter topic: how many records it keeps at most, those of other groups included."""

    faults: tuple[str, ...]
    """What keeps records waiting, each with how to fix it."""

    dependencies: tuple[WaitsForDependency, ...] = ()
    dead_letters_end: int = 0
    """Sum of the end offsets of the dead-letter topics. Between two looks it grows by what died."""

    requests: tuple[RequestState, ...] = ()
    """What operators want done with waiting records, and is not done."""

    @property
    def outages(self) -> list[WaitsForDependency]:
        """The dependencies that are away."""
        return [each for each in self.dependencies if each.state.opened is not None]


def status(settings: Settings, report: Report = lambda *_: None) -> GroupStatus:
    """Look at a group once, for a command; see :meth:`StatusReader.look`."""
    with closing(StatusReader(settings, every_protocol=True)) as reader:
        return reader.look(report)


class StatusReader:
    """Looks at a group with the same clients again and again. Not thread-safe; after an error it has to be closed."""

    def __init__(self, settings: Settings, *, every_protocol: bool = False) -> None:
        """Open the clients, which connect with the first look. ``every_protocol``: as of :class:`GroupMembers`."""
        self._settings = settings
        calls = AdminCalls(admin_config(settings.kafka), timeout_s=TIMEOUT_S)
        self._admin = ClusterAdmin(settings.kafka, calls=calls)
        self._offsets = PartitionOffsets(settings.kafka, calls=calls)
        self._calls = calls
        self._listing = GroupMembers(settings.kafka, calls=calls, every_protocol=every_protocol)
        with ExitStack() as opened:
            self._committed = {
                group: opened.enter_context(closing(CommittedOffsets(calls, settings.kafka, group)))
                for group in (settings.group, scheduler_group(settings.group))
            }
            self._tail = opened.enter_context(closing(control_tail(settings, keep_records=True)))
            self._opened = opened.pop_all()
        self._waiting: tuple[Positions, Mapping[str, WaitingRecords]] | None = None
        self._few: tuple[Positions, Mapping[Partition, int]] | None = None
        self._hidden: set[tuple[Partition, int]] | None = None
        """The first offset of each partition that was in an open transaction at the last look."""

        self._since_ms: dict[tuple[Partition, int], int] = {}
        """When the first record of such a transaction was written (epoch ms), as far as it was read."""

    def close(self) -> None:
        """Release the clients."""
        self._opened.close()

    def look(self, report: Report = lambda *_: None) -> GroupStatus:
        """Return how the group is; change nothing.

        Args:
            report: gets the number of waiting records that were read, and of those to read.

        Raises:
            TransportError: Kafka does not answer, or the user lacks a right of the role ``operator``.
        """
        settings, naming = self._settings, self._settings.naming()
        counts, leaderless = self._admin.listed_topics()
        roles = {source.topic: "source" for source in settings.sources}
        roles |= {naming.ready_topic(source.topic): "ready" for source in settings.sources}
        waiting = [topic for topic in (naming.mixed_topic(), *naming.tiers_among(counts)) if topic in counts]
        dead = sweep_plan(settings).topics
        control = naming.control_topic()
        marks = topic_marks(self._calls, [each for each in (*roles, *waiting, control) if each in counts])
        silent = [each for each in partitions_of([*roles, *waiting, *dead], counts) if each in leaderless]
        read, tiers, letters, own = (
            self._positions(group, [each for each in partitions_of(topics, counts) if each not in leaderless], marks)
            for group, topics in (
                (settings.group, roles),
                (scheduler_group(settings.group), waiting),
                (None, dead),
                (None, [control]),
            )
        )
        self._tail.about(marks.get(control, ""))
        pauses = self._tail.read_to_end().readable()
        owners = owners_of(settings, self._listing)
        seen, members = observed(pauses, owners), tuple(_members(owners))
        faults = [
            *hidden_topics([*roles, *configured_tiers(settings), *dead, control], counts),
            *(
                f"{each} has no leader, so its records are not counted; start a broker that has a replica of it"
                for each in silent
            ),
            *_deleted(settings.group, read),
            *_deleted(scheduler_group(settings.group), tiers),
            *(
                f"{each.topic} {each.problem}; {each.loss}; {each.fix}"
                for each in created_again(self._tail.state().of_topics(marks), marks)
            ),
            *_alone(settings, members, tiers, seen),
        ]
        now_ms = wall_clock_ms()
        records, few = self._records(waiting, tiers, report), self._counted(read)
        faults += self._open({**read.hidden(), **tiers.hidden(), **own.hidden()}, now_ms)
        if seen.members is None or any(each.group != settings.group for each in members):
            faults += _overdue(records, seen, now_ms)
        faults += _reported(seen, now_ms)
        backlogs = (
            *(_backlog(read, topic, role, few) for topic, role in roles.items() if topic in counts),
            *(_tier(tiers, topic, found, now_ms) for topic, found in records.items()),
        )
        return GroupStatus(
            settings.group,
            now_ms,
            seen,
            members,
            backlogs,
            _kept(letters, dead),
            tuple(faults),
            tuple(_waits(settings, each, backlogs) for each in dependency_states(settings, pauses, now_ms)),
            sum(letters.ends.values()),
            request_states(pauses),
        )

    def _open(self, hidden: Ranges, now_ms: int) -> Iterable[str]:
        """Yield the transactions that are open for longer than those of any process of this project.

        One that was not there at the look before is too young, so its first record is read at the next look.
        """
        firsts = {(each, first) for each, (first, _) in hidden.items()}
        lasting = firsts if self._hidden is None else firsts & self._hidden
        self._hidden = firsts
        unknown = sorted(lasting - self._since_ms.keys())[:_OPEN_AT_MOST]
        found = open_since_ms(self._settings, {each: hidden[each] for each, _ in unknown})
        self._since_ms = {each: self._since_ms[each] for each in lasting & self._since_ms.keys()}
        self._since_ms |= {(each, first): found[each] for each, first in unknown if each in found}
        late = {each: since_ms for each, since_ms in self._since_ms.items() if since_ms < now_ms - _OPEN_MS}
        # Its producer may give a record an older time than it was written at.
        still = self._offsets.last_stable_offsets({partition for partition, _ in late})
        for (partition, first), since_ms in sorted(late.items()):
            if still[partition] == first:
                yield (
                    f"{partition}: {hidden[partition][1] - first} records from offset {first} on are in or behind a "
                    f"transaction that is open since {printable_time(since_ms)}, so no process sees them; let its "
                    f"producer end it. If that is gone for good, drop what it wrote there with: kafka-transactions.sh "
                    f"abort --topic {partition.topic} --partition {partition.number} --start-offset {first}"
                )

    def _positions(self, group: str | None, partitions: list[Partition], marks: Mapping[str, str]) -> Positions:
        return Positions.of(self._offsets, None if group is None else self._committed[group], partitions, marks)

    def _records(self, topics: Sequence[str], tiers: Positions, report: Report) -> Mapping[str, WaitingRecords]:
        """Read the waiting records of the tiers; if nothing has moved since the last look, they are the same."""
        if self._waiting is not None and self._waiting[0] == tiers:
            return self._waiting[1]
        found = {topic: WaitingRecords() for topic in topics}
        for message in read_unfinished(self._settings, tiers, _READ_AT_MOST, report):
            each = found[message.topic()]
            each.due_ms.append(due_ms(message))
            each.causes[last_failure(message).exception or "unknown"] += 1
        self._waiting = tiers, found
        return found

    def _counted(self, positions: Positions) -> Mapping[Partition, int]:
        """Count the unfinished records of the partitions that have few; the difference of offsets counts markers, too.

        If nothing has moved since the last look, they are the same.
        """
        if self._few is not None and self._few[0] == positions:
            return self._few[1]
        few: dict[Partition, tuple[int, int]] = {}
        left = _COUNT_AT_MOST
        for partition, (first, end) in sorted(positions.ranges().items(), key=lambda each: each[1][1] - each[1][0]):
            left -= end - first
            if left < 0:
                break
            few[partition] = first, end
        found = dict.fromkeys(few, 0)
        for message in read_unfinished(self._settings, positions, _COUNT_AT_MOST, lambda *_: None, few):
            found[Partition(message.topic(), message.partition())] += 1
        self._few = positions, found
        return found


@dataclass(frozen=True, slots=True)
class WaitingRecords:
    """What was read of a tier."""

    due_ms: list[int] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)


def _waits(settings: Settings, state: DependencyState, backlogs: Iterable[TopicBacklog]) -> WaitsForDependency:
    naming = settings.naming()
    topics = {topic for source in state.sources for topic in (source, naming.ready_topic(source))}
    return WaitsForDependency(state, sum(each.records for each in backlogs if each.topic in topics))


def _kept(letters: Positions, topics: Iterable[str]) -> dict[str, int]:
    kept = dict.fromkeys(topics, 0)
    for partition, end in letters.ends.items():
        kept[partition.topic] += end - letters.starts[partition]
    return kept


def _backlog(positions: Positions, topic: str, role: str, counted: Mapping[Partition, int]) -> TopicBacklog:
    finished, end = _sums(positions, topic)
    ranges = {each: bounds for each, bounds in positions.ranges().items() if each.topic == topic}
    records = sum(counted.get(each, last - first) for each, (first, last) in ranges.items())
    exact, hidden = ranges.keys() <= counted.keys(), _hidden(positions, topic)
    return TopicBacklog(topic, role, records, finished=finished, end=end, hidden=hidden, exact=exact)


def _hidden(positions: Positions, topic: str) -> int:
    """Return how many records of a topic are in or behind open transactions at most."""
    return sum(end - first for each, (first, end) in positions.hidden().items() if each.topic == topic)


def _sums(positions: Positions, topic: str) -> tuple[int, int]:
    """Return the sums of the first unfinished offsets of a topic, and of the ends."""
    ranges = [positions.unfinished(each) for each in positions.ends if each.topic == topic]
    return sum(first for first, _ in ranges), sum(end for _, end in ranges)


def _members(owners: Owners) -> Iterable[Member]:
    for group, found in owners.items():
        for name, partitions in sorted((found or {}).items()):
            yield Member(group, name.removeprefix(f"{group}."), len(partitions))


def _overdue(records: Mapping[str, WaitingRecords], seen: AppliedPauses, now_ms: int) -> Iterable[str]:
    """Yield the tiers whose first record is long overdue, although nothing is paused."""
    paused = {each.target.topic for each in seen.pauses}
    for topic, waiting in records.items():
        first_ms = min(waiting.due_ms, default=now_ms)
        if first_ms < now_ms - _OVERDUE_MS and not paused & {topic, ""}:
            yield (
                f"{topic}: its first record was due at {printable_time(first_ms)} and is not released; see what "
                "/readyz and the log of the schedulers say: one hangs, is halted there, or is behind"
            )


def _reported(seen: AppliedPauses, now_ms: int) -> Iterable[str]:
    for name, reported in seen.faults.items():
        if reported.until_ms > now_ms:
            for line in reported.text.splitlines():
                yield f"{name.role} {name.instance}: {line}"


def _deleted(group: str, positions: Positions) -> Iterable[str]:
    for partition, committed in positions.committed.items():
        name, at = str(partition), committed.offset
        if at < positions.starts[partition]:
            yield (
                f"{name}: the committed offset {at} of {group} was deleted; "
                "to go on at the log start, run: redelivery topology apply --accept-loss"
            )


def _alone(settings: Settings, members: tuple[Member, ...], tiers: Positions, seen: AppliedPauses) -> Iterable[str]:
    if seen.members is None:
        return  # Kafka does not list the members
    joined = {member.group for member in members}
    if settings.group not in joined:
        yield f"no worker or query runs: group {settings.group} has no members; run: redelivery worker"
    waits = any(end > first for first, end in map(tiers.unfinished, tiers.ends))
    if scheduler_group(settings.group) not in joined and (needs_scheduler(settings) or waits):
        yield f"no scheduler runs: group {scheduler_group(settings.group)} has no members; run: redelivery scheduler"
    if not seen.whole:
        yield (
            f"{seen.members - seen.applied} of {seen.members} processes do not obey the newest pause or outage, "
            "or its end, yet; if that lasts, restart those without the newest offset"
        )


def _tier(tiers: Positions, topic: str, waiting: WaitingRecords, now_ms: int) -> TopicBacklog:
    times = waiting.due_ms
    numbers = Counter(_bound(time_ms - now_ms) for time_ms in times)
    finished, end = _sums(tiers, topic)
    ranges = tiers.ranges()
    read = shares(ranges, _READ_AT_MOST)
    exact = all(read[each] == last for each, (_, last) in ranges.items() if each.topic == topic)
    return TopicBacklog(
        topic,
        "tier",
        records=len(times) if exact else end - finished,
        exact=exact,
        due={name: numbers[name] for name in _BOUNDS_S if name in numbers},
        first_due_ms=min(times, default=None),
        read=len(times),
        causes=dict(waiting.causes.most_common(_CAUSES)),
        due_ms=tuple(sorted(times)),
        finished=finished,
        end=end,
        hidden=_hidden(tiers, topic),
    )


def _bound(left_ms: int) -> str:
    return next(name for name, bound_s in _BOUNDS_S.items() if left_ms <= bound_s * 1000)
