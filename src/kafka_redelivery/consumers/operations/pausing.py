"""`redelivery pause` and `resume`: write to the control topic what an operator decides, and wait until it is obeyed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import reduce

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.durations import parse_milliseconds, parse_time
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.pauses import (
    Applied,
    Pause,
    Pauses,
    PauseScope,
    PauseTarget,
    ProcessName,
    Reported,
    pause_record,
    tombstones,
)
from kafka_redelivery.transport.admin.control_topic import ControlTail, append_control
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.protocols import Partition, TopicMetadata

Owners = Mapping[str, Mapping[str, Sequence[Partition]] | None]
"""The groups of workers and schedulers, with the partitions of each member; ``None`` = the members are unknown."""

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class AppliedPauses:
    """How far the processes of a group obey the newest pause, or its end."""

    pauses: tuple[Pause, ...]
    """The pauses that have not ended."""

    end: int
    """The control offset that a process must have applied; 0 = the group was never paused."""

    processes: dict[ProcessName, Applied]
    """What each process has noted."""

    members: int | None
    """How many members the groups of workers and schedulers have; ``None`` = unknown."""

    faults: Mapping[ProcessName, Reported] = field(default_factory=dict)
    """What each process has reported that keeps records waiting; old reports, too."""

    @property
    def applied(self) -> int:
        """How many processes obey."""
        return sum(each.offset >= self.end for each in self.processes.values())

    @property
    def whole(self) -> bool:
        """Whether every process obeys, as far as that is known. Without a pause there is nothing to obey."""
        return not self.end or self.members is None or self.applied >= self.members


def targets_of(
    settings: Settings, sources: Iterable[str], tiers: Iterable[str], topics: TopicMetadata
) -> list[PauseTarget]:
    """Return what a command names; without sources and tiers the whole group.

    Args:
        settings: the configuration.
        sources: topics.
        tiers: topics, or delays such as ``2s``, or ``mixed``.
        topics: those that exist.

    Raises:
        OptionError: a source is not configured, or a tier does not exist.
    """
    naming = settings.naming()
    configured = [source.topic for source in settings.sources]
    found = []
    for source in dict.fromkeys(sources):
        if source not in configured:
            raise OptionError("source", f"{source} is not a source; the configuration has {', '.join(configured)}")
        found.append(PauseTarget(PauseScope.SOURCE, source))
    for tier in dict.fromkeys(tiers):
        delay_ms = parse_milliseconds(tier)
        name = naming.tier_topic(delay_ms) if delay_ms else naming.mixed_topic() if tier == "mixed" else tier
        is_tier = name == naming.mixed_topic() or name in naming.tiers_among([name])
        if not is_tier or topics.partitions(name) is None:
            problem = f"there is no tier {name}; `redelivery topology plan` lists the tiers of the group"
            raise OptionError("tier", problem)
        found.append(PauseTarget(PauseScope.TIER, name))
    return found or [PauseTarget(PauseScope.GROUP)]


def end_of_pause(text: str, now_ms: int) -> int:
    """Return when a pause ends by itself (epoch ms), from a time or a duration.

    Raises:
        OptionError: the text is neither, or in the past.
    """
    try:
        until_ms = parse_time(text, now_ms, ago=False)
    except ValueError as error:
        raise OptionError("until", str(error)) from None
    if until_ms <= now_ms:
        raise OptionError("until", f"{text} is in the past")
    return until_ms


def pause(
    settings: Settings,
    targets: Sequence[PauseTarget],
    until_ms: int | None,
    wait_s: float,
    listing: GroupMembers | None = None,
    *,
    by: str = "",
    note: str = "",
    on_written: Callable[[int], None] | None = None,
) -> AppliedPauses:
    """Pause, and wait until all processes obey.

    Args:
        settings: the configuration.
        targets: what to pause. A pause that holds already gets a new end.
        until_ms: when the pause ends by itself (epoch ms); ``None`` = with :func:`resume`.
        wait_s: how long to wait at most.
        listing: lists the members of the group, which are waited for. Without it a new one does.
        by: who pauses.
        note: why.
        on_written: as of :func:`write_and_wait`.

    Raises:
        ConsumersError: there is no control topic.
        TransportError: Kafka does not answer, or refuses.
    """

    def records(before: Pauses, now_ms: int) -> list[ControlRecord]:
        ended = [each for each, known in before.pauses.items() if not known.holds(now_ms)]
        return [*tombstones(ended), *(pause_record(target, until_ms, now_ms, by, note) for target in targets)]

    return write_and_wait(settings, records, wait_s, listing, on_written)


def resume(
    settings: Settings,
    targets: Sequence[PauseTarget],
    wait_s: float,
    listing: GroupMembers | None = None,
    *,
    on_written: Callable[[int], None] | None = None,
) -> AppliedPauses:
    """End pauses, and wait until all processes go on; see :func:`pause`. Without targets all pauses end."""

    def records(before: Pauses, now_ms: int) -> list[ControlRecord]:
        named = set(targets or before.pauses)
        return tombstones(each for each, known in before.pauses.items() if each in named or not known.holds(now_ms))

    return write_and_wait(settings, records, wait_s, listing, on_written)


def control_tail(settings: Settings, *, keep_records: bool = False, uncommitted: bool = False) -> ControlTail:
    """Return what reads the pauses of a group. ``keep_records``, ``uncommitted``: as of :class:`ControlTail`."""
    topic = settings.naming().control_topic()
    return ControlTail(settings.kafka, settings.group, topic, keep_records=keep_records, uncommitted=uncommitted)


def owners_of(settings: Settings, listing: GroupMembers) -> Owners:
    """Ask Kafka for the partitions of each worker and scheduler.

    Raises:
        TransportError: Kafka does not answer, or refuses.
    """
    return {group: listing.owners(group) for group in (settings.group, scheduler_group(settings.group))}


def observed(pauses: Pauses, owners: Owners) -> AppliedPauses:
    """Return which pauses of a group hold now, and which of its processes obey."""
    holding = tuple(pauses.holding(wall_clock_ms()))
    members = None if None in owners.values() else sum(len(each or ()) for each in owners.values())
    return AppliedPauses(
        holding, pauses.end, dict(sorted(pauses.processes.items())), members, dict(sorted(pauses.faults.items()))
    )


def write_and_wait(
    settings: Settings,
    records: Callable[[Pauses, int], list[ControlRecord]],
    wait_s: float,
    listing: GroupMembers | None = None,
    on_written: Callable[[int], None] | None = None,
) -> AppliedPauses:
    """Write what an operator has decided to the control topic, and wait until all processes obey.

    Args:
        settings: the configuration.
        records: returns them, from what the topic says and the time (epoch ms). Without any nothing is written.
        wait_s: how long to wait at most.
        listing: as of :func:`pause`.
        on_written: is called with that time as soon as the records are written, before anything that can fail.

    Raises:
        ConsumersError: there is no control topic.
        TransportError: Kafka does not answer, or refuses.
    """
    listing = listing or GroupMembers(settings.kafka)
    # Processes see no pause behind the open transaction of a scheduler yet, but it holds, and has to be ended.
    with closing(control_tail(settings, uncommitted=True)) as tail:
        if not tail.exists():
            topic = settings.naming().control_topic()
            raise ConsumersError(
                f"there is no topic {topic}, in which pauses are kept, or it may not be described; run: redelivery "
                "topology apply"
            )
        before = tail.read_to_end().readable()
        now_ms = wall_clock_ms()
        decided = records(before, now_ms)
        if not decided:
            return observed(before, owners_of(settings, listing))
        # Every process that runs notes anew what it obeys, so what is there afterwards is no note of a dead process.
        written = [*tombstones(before.processes), *decided]
        end = append_control(settings.kafka, settings.naming().control_topic(), written)
        if on_written is not None:
            on_written(now_ms)
        return _await(tail, written, end, owners_of(settings, listing), wait_s)


def _await(
    tail: ControlTail, written: Sequence[ControlRecord], end: int, owners: Owners, wait_s: float
) -> AppliedPauses:
    """Wait until the processes have noted what was written up to ``end``. It holds also before it is read here."""
    deadline_s = monotonic_s() + wait_s
    while True:
        pauses = tail.poll(_POLL_S)
        if pauses.end < end:
            pauses = reduce(lambda known, each: known.with_record(*each, end - 1), written, pauses)
        seen = observed(pauses, owners)
        if monotonic_s() >= deadline_s or (seen.whole and seen.members is not None):
            return seen
