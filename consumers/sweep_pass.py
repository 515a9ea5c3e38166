"""One pass over a group's dead-letter topics, because somebody asks: what has expired is removed, or only told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Event

from consumers.clients import Instance
from consumers.clock import Clock, wall_clock_ms
from consumers.errors import SweepError
from consumers.observer import Silent
from consumers.sweep_head import Head, Rest
from consumers.sweeper import Sweeper
from consumers.sweeping import sweeper_parts
from topology.facts import Bounds, ClusterFacts
from topology.settings import Settings
from topology.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from transport.admin import ClusterAdmin
from transport.assigned_reader import AssignedReader
from transport.client_config import LITTLE
from transport.errors import ReaderError
from transport.owners import Owners
from transport.protocols import Partition

Looked = Callable[[int, int], None]
"""Told how many offsets were looked at, and how many there are."""

_BATCH = 1000
_POLL_S = 0.5

END = "end"
"""All that was in the partition had expired, or nothing was in it."""

TAKEN_OVER = "taken_over"
"""A scheduler has started meanwhile and sweeps this partition now."""

UNFINISHED = "unfinished"
"""The pass was ended before its time."""


@dataclass(frozen=True, slots=True)
class PartitionSwept:
    """What became of one partition."""

    number: int
    removed: int
    """Expired dead letters that are gone, or would be."""

    moved: int
    """How many of them are kept in their expiry topic."""

    because: str
    """Why no more: a :class:`~consumers.sweep_head.Rest`, :data:`END`, :data:`TAKEN_OVER` or :data:`UNFINISHED`."""

    offset: int | None = None
    """The first one that stays, if there is one and it was seen."""

    expires_ms: int = 0
    """When that one expires (epoch ms), 0 = never."""

    problem: str = ""
    """What the broker refused, where it did."""


@dataclass(frozen=True, slots=True)
class TopicSwept:
    """What became of one dead-letter topic; ``problem`` says why nothing did, where it could not be looked at."""

    name: str
    partitions: tuple[PartitionSwept, ...] = ()
    problem: str = ""

    @property
    def whole(self) -> bool:
        """Whether nothing was refused or left undone."""
        failed = {Rest.REFUSED, UNFINISHED}
        return not self.problem and all(each.because not in failed for each in self.partitions)


def sweep(settings: Settings, ended: Event, looked: Looked) -> list[TopicSwept]:
    """Remove what has expired at the head of each partition, moving it first where that is configured.

    Args:
        settings: the configuration; whether it still has an expiration does not matter.
        ended: ends the pass before its time.
        looked: told how far it is.

    Raises:
        SweepError: schedulers of the group sweep already, or the topics cannot be read.
        TransportError: Kafka does not answer or does not allow it.
    """
    plan = sweep_plan(settings)
    facts = _facts(settings, plan)
    group = sweeper_group(settings.group)
    members = Owners(settings.kafka).members(group)
    if members:
        raise SweepError(
            f"schedulers sweep these topics already ({members} of them in group {group}): let them, or stop them and "
            "wait for their sessions to end; --dry-run only looks"
        )
    sums = _Sums(facts, looked)
    try:
        works = Sweeper(plan, sweeper_parts(settings, plan, Instance.passing(), Silent(), LITTLE), _BATCH)
        heads = works.once(ended, sums.tell)
    except ReaderError as error:
        raise SweepError(str(error)) from error
    return [
        TopicSwept(name, problem=works.forbidden[name])
        if name in works.forbidden
        else _swept(name, facts, heads, works.tally.removed_in_all, works.tally.moved_in_all, stopped=ended.is_set())
        for name in plan.topics
    ]


def look(settings: Settings, ended: Event, looked: Looked, clock: Clock = wall_clock_ms) -> list[TopicSwept]:
    """Tell what :func:`sweep` would do by this machine's clock. Joins no group and changes nothing.

    Args:
        settings: the configuration.
        ended: ends the pass before its time.
        looked: told how far it is.
        clock: epoch ms.

    Raises:
        SweepError: the topics cannot be read.
        TransportError: Kafka does not answer or does not allow it.
    """
    plan = sweep_plan(settings)
    facts = _facts(settings, plan)
    group = sweeper_group(settings.group)
    heads = {place: Head(plan.group, bounds.start, 0) for place, bounds in _bounds(facts).items()}
    moved_to = {place: facts.offset(group, *place) or 0 for place in heads}
    moved: Counter[Partition] = Counter()
    sums = _Sums(facts, looked)
    reader = AssignedReader(settings.kafka, group)
    try:
        while not ended.is_set():
            unfinished = {place: head for place, head in heads.items() if _more(head, reader, place, facts)}
            if not unfinished:
                break
            reader.assign({place: head.next for place, head in unfinished.items()})
            for message in reader.fetch(_BATCH, _POLL_S):
                place = Partition(message.topic(), message.partition())
                head = heads[place]
                fate = head.take(message, clock())
                if fate is not None and message.offset() >= moved_to[place]:
                    moved[place] += plan.expiry_topic(place.topic, fate.source) is not None
            sums.tell(heads)
    except ReaderError as error:
        raise SweepError(str(error)) from error
    finally:
        reader.close()
    expired = Counter({place: head.expired for place, head in heads.items()})
    return [_swept(name, facts, heads, expired, moved, stopped=ended.is_set()) for name in plan.topics]


def _more(head: Head, reader: AssignedReader, place: Partition, facts: ClusterFacts) -> bool:
    end = facts.topics[place.topic].bounds[place.number].end  # what comes later is no part of this pass
    return head.rest is None and head.next < end and reader.unread(place, end) > 0


def _facts(settings: Settings, plan: SweepPlan) -> ClusterFacts:
    readers = dict.fromkeys(plan.topics, (sweeper_group(settings.group),))
    return ClusterAdmin(settings.kafka).describe(plan.topics, readers)


def _bounds(facts: ClusterFacts) -> dict[Partition, Bounds]:
    return {
        Partition(name, number): bounds
        for name, topic in facts.topics.items()
        for number, bounds in topic.bounds.items()
    }


class _Sums:
    """How far a pass is, in offsets."""

    def __init__(self, facts: ClusterFacts, looked: Looked) -> None:
        self._bounds = _bounds(facts)
        self._looked = looked
        self._all = sum(bounds.end - bounds.start for bounds in self._bounds.values())

    def tell(self, heads: Mapping[Partition, Head]) -> None:
        """Of a partition that rests nothing is left to be looked at."""
        done = 0
        for place, bounds in self._bounds.items():
            head = heads.get(place)
            reached = bounds.start if head is None else bounds.end if head.rest is not None else head.next
            done += min(reached, bounds.end) - bounds.start
        self._looked(done, self._all)


def _swept(
    name: str,
    facts: ClusterFacts,
    heads: Mapping[Partition, Head],
    removed: Mapping[Partition, int],
    moved: Mapping[Partition, int],
    *,
    stopped: bool,
) -> TopicSwept:
    if name not in facts.topics:
        return TopicSwept(name, problem="there is no such topic; see `redelivery topology check`")
    numbers: Iterable[int] = range(facts.topics[name].partitions)
    return TopicSwept(
        name, tuple(_partition(Partition(name, number), heads, removed, moved, stopped=stopped) for number in numbers)
    )


def _partition(
    place: Partition,
    heads: Mapping[Partition, Head],
    removed: Mapping[Partition, int],
    moved: Mapping[Partition, int],
    *,
    stopped: bool,
) -> PartitionSwept:
    head = heads.get(place)
    numbers = (place.number, removed.get(place, 0), moved.get(place, 0))
    if head is None:
        return PartitionSwept(*numbers, because=UNFINISHED if stopped else TAKEN_OVER)
    if head.rest is None:
        return PartitionSwept(*numbers, because=UNFINISHED if stopped else END)
    refused = head.rest is Rest.REFUSED
    return PartitionSwept(*numbers, str(head.rest), head.next, head.expires_ms, problem=head.problem if refused else "")
