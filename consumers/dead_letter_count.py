"""What the dead-letter topics hold, counted from each record's headers once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from consumers.dead_letter_pile import MOST_RUNS, NEVER, Pile
from consumers.observer import DeadLetterLabel, DeadLettersKept, DeadLetterStanding, DeadLetterTopic
from consumers.release import UNKNOWN_SOURCE
from topology.decision import Reason
from topology.facts import RETENTION_MS, Bounds, TopicFacts
from topology.headers import FAILURE_CAUSE, ORIG_ADDRESS, ORIG_QUEUE, read_expiration
from topology.settings import Settings
from topology.sweep_plan import sweep_plan
from transport.message_headers import UnreadableHeadersError, headers_of
from transport.protocols import Message, Partition

UNKNOWN_REASON: Final = UNKNOWN_SOURCE
_REASONS: Final = frozenset(str(reason) for reason in Reason)
_BEGINS: Final = {b'{"reason":"%b"' % reason.encode(): reason for reason in _REASONS}
"""How a cause of ours begins. Nothing behind it matters, so it is not parsed: that would be half of the work."""

_RUNS: Final = 2**18
"""Runs of all piles together, about 60 MB."""

_FEWEST_RUNS: Final = 8


class DeadLetterCount:
    """Counts of the partitions that are watched. Used by one thread; does no input or output.

    Dead letters of other groups are passed over: they are counted by the schedulers of those groups. What has no
    readable headers belongs to nobody and is counted by everybody, as unknown.
    """

    def __init__(self, settings: Settings) -> None:
        self._group = settings.group.encode()
        self._sources = {source.topic.encode(): source.topic for source in settings.sources}
        self._next: dict[Partition, int] = {}
        self._piles: dict[Partition, dict[DeadLetterLabel, Pile]] = {}
        self._most = MOST_RUNS
        self._retention_ms: dict[str, int | None] = {}
        self._plan = sweep_plan(settings)

    @property
    def runs(self) -> int:
        """What all piles together consist of: the measure of the memory they take."""
        return sum(len(pile) for piles in self._piles.values() for pile in piles.values())

    def watch(self, topics: Mapping[str, TopicFacts], wanted: Iterable[Partition]) -> dict[Partition, int]:
        """Watch exactly these partitions from now on, and forget what was deleted from them.

        Args:
            topics: the dead-letter topics as they are.
            wanted: the partitions; those without known bounds stay as they are.

        Returns:
            for each where to read on.
        """
        self._retention_ms = {name: _retention(topic) for name, topic in topics.items()}
        wanted = set(wanted)
        for place in self._next.keys() - wanted:
            del self._next[place], self._piles[place]
        for place in wanted:
            bounds = topics[place.topic].bounds.get(place.number)
            if bounds is not None:
                self._keep_within(place, bounds)
        return dict(self._next)

    def _keep_within(self, place: Partition, bounds: Bounds) -> None:
        position = self._next.get(place)
        if position is None or position > bounds.end:  # new to us, or deleted and made again
            self._next[place], self._piles[place] = bounds.start, {}
            return
        self._next[place] = max(position, bounds.start)
        for label, pile in list(self._piles[place].items()):
            pile.drop_before(bounds.start)
            if not len(pile):
                del self._piles[place][label]

    def take(self, messages: Iterable[Message]) -> None:
        """Count these, each the first time that it comes."""
        for message in messages:
            place, offset = Partition(message.topic(), message.partition()), message.offset()
            if offset < self._next.get(place, NEVER):
                continue
            self._next[place] = offset + 1
            try:
                headers = headers_of(message)
            except UnreadableHeadersError:
                headers = []
            label = self._label(dict(headers))
            if label is not None:
                pile = self._pile(place, label)
                pile.add(offset, message.timestamp()[1], read_expiration(headers) or NEVER, self._most)

    def _pile(self, place: Partition, label: DeadLetterLabel) -> Pile:
        piles = self._piles[place]
        pile = piles.get(label)
        if pile is None:
            moved = self._plan.expiry_topic(place.topic, label.topic) is not None
            pile = piles[label] = Pile(moved=moved)
            number = sum(len(each) for each in self._piles.values())
            self._most = max(_FEWEST_RUNS, min(MOST_RUNS, _RUNS // number))
        return pile

    def kept(self, now_ms: int, unread: Mapping[Partition, int]) -> DeadLettersKept:
        """What there is, as told to the observer.

        Args:
            now_ms: epoch ms.
            unread: by partition, how many records are yet to come.
        """
        kinds: dict[DeadLetterLabel, DeadLetterStanding] = {}
        topics: dict[str, DeadLetterTopic] = {}
        for place, piles in self._piles.items():
            retention_ms = self._retention_ms.get(place.topic)
            loss_ms = None
            for label, pile in piles.items():
                kinds[label] = _sum(kinds.get(label), pile.standing(now_ms))
                if retention_ms is not None:
                    loss_ms = _earlier(loss_ms, pile.loss_ms(now_ms, retention_ms))
            before = topics.get(place.topic)
            topics[place.topic] = DeadLetterTopic(
                unread=unread.get(place, 0) + (0 if before is None else before.unread),
                retention_ms=retention_ms,
                loss_ms=loss_ms if before is None else _earlier(loss_ms, before.loss_ms),
            )
        return DeadLettersKept(kinds, topics)

    def _label(self, headers: Mapping[str, bytes | None]) -> DeadLetterLabel | None:
        group = headers.get(ORIG_QUEUE)
        if group is not None and group != self._group:
            return None
        source = self._sources.get(headers.get(ORIG_ADDRESS) or b"", UNKNOWN_SOURCE)
        return DeadLetterLabel(source, _reason(headers.get(FAILURE_CAUSE)))


def _reason(cause: bytes | None) -> str:
    """The reason that a dead letter states, if it is one of ours: labels are bounded, whatever somebody writes."""
    ours = _BEGINS.get((cause or b"").partition(b",")[0])
    if ours is not None:
        return ours
    try:
        told = json.loads(cause or b"null")
    except ValueError:
        return UNKNOWN_REASON
    reason = told.get("reason") if isinstance(told, dict) else None
    return reason if isinstance(reason, str) and reason in _REASONS else UNKNOWN_REASON


def _retention(topic: TopicFacts) -> int | None:
    value = topic.config(RETENTION_MS)
    return None if value is None or int(value) < 0 else int(value)


def _sum(first: DeadLetterStanding | None, second: DeadLetterStanding) -> DeadLetterStanding:
    if first is None:
        return second
    return DeadLetterStanding(
        first.depth + second.depth, first.expired + second.expired, _earlier(first.oldest_ms, second.oldest_ms)
    )


def _earlier(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
