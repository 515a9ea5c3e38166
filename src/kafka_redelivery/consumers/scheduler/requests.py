"""What the owner of a tier's partition does about the requests of operators: one write at a time, each of one request.

What is done is not remembered between two writes: it follows from the request and from which records of the partition
are finished, read or buffered. So an aborted write is repeated, and the next owner goes on where the last one stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_redelivery.consumers.scheduler.release import Release, ReleaseBuilder
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition, TierRecord
from kafka_redelivery.topology.wire.topic_mark import is_other_topic
from kafka_redelivery.topology.wire.waiting import RequestKey, WaitingDone, WaitingRequest, done_record
from kafka_redelivery.transport.protocols import Partition, ProducerRecord

NO_SPACE: Final = "for space in the metadata of the commit, which comes when records in front of them leave"
UNREAD: Final = "until the scheduler has read them: its buffer is full of records in front of them"
TOO_LATE: Final = "not carried out in time"
OTHER_TOPIC: Final = "their topic was deleted and created again"

_REST_MS: Final = 60_000


class Step(NamedTuple):
    """What to do next about a request."""

    take: Sequence[int]
    """The offsets of the records that leave now, ascending."""

    left: int
    """How many records of the request wait after that; of all records below an offset, at most so many."""

    why: str
    """What these wait for; empty if they are taken in the next step."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a partition."""

    waits: Sequence[int]
    """The offsets of the buffered records, ascending. What is below :attr:`read_to` and not among them is finished."""

    read_to: int
    """Up to which offset the partition was read."""

    apart: Container[int] = frozenset()
    """Finished offsets that may be above that."""

    space: int = 2**62
    """How many records a write may have."""

    space_for: Callable[[Sequence[int]], int] = len
    """Returns how many of the first of these offsets may leave before those in front of them."""


def next_step(request: WaitingRequest, known: Standing, refused: Container[int] = frozenset()) -> Step:
    """Return what to do next about a request; ``refused``: offsets that nothing can be done about.

    Records that have left already, as when they were due or another request was first, are passed over.
    """
    if request.below is None:
        wanted = set(request.offsets)
        here = [offset for offset in known.waits if offset in wanted and offset not in refused]
        later = request.offsets[bisect_left(request.offsets, known.read_to) :]
        unread = sum(offset not in known.apart for offset in later)
    else:
        here = [offset for offset in known.waits[: bisect_left(known.waits, request.below)] if offset not in refused]
        unread = max(0, request.below - known.read_to)
    # Those at the front are finished in order. Only what is behind a record that stays needs space in the metadata.
    front = next((at for at, offset in enumerate(here) if offset != known.waits[at]), len(here))
    number = front if front >= known.space else front + known.space_for(here[front:])
    take = here[: min(number, known.space)]
    left = len(here) - len(take) + unread
    why = NO_SPACE if number < min(len(here), known.space) else UNREAD if unread and len(take) == len(here) else ""
    return Step(take, left, why)


@dataclass(slots=True)
class RequestedWrite:
    """The write of one step."""

    key: RequestKey
    release: Release
    ended: bool


@dataclass(slots=True)
class _Known:
    """What this process knows of a request and would find out again."""

    refused: dict[int, str] = field(default_factory=dict)
    """Records that nothing can be done about, with the reason."""

    failure: str = ""
    """Why Kafka has refused the last write."""

    told: str | None = None
    """What the last step has said that the others wait for."""

    ended: bool = False
    """Whether it is over; the control topic says so a little later."""

    aborted: int = 0
    """How many of its writes were aborted since the last one that was committed."""

    rests_until_ms: int = 0
    """Until when nothing is done about it (epoch ms), because Kafka has refused to take its end."""


class Requests:
    """Makes the writes of the requests. Only the scheduler's thread uses it."""

    def __init__(self, control_topic: str) -> None:
        """Know of no request."""
        self._control_topic = control_topic
        self._known: dict[RequestKey, _Known] = {}

    def next_write(
        self,
        requests: Sequence[WaitingRequest],
        tiers: Mapping[Partition, TierPartition],
        builder: ReleaseBuilder,
        mark_of: Callable[[Partition], str],
        space: int,
        now_ms: int,
    ) -> RequestedWrite | None:
        """Return the write of the first request that can go on, without offsets; ``None`` if none can.

        Those whose writes were aborted come after the others. Its records are finished in their partition then.

        Args:
            requests: what has not ended, the oldest first.
            tiers: the partitions that may be released.
            builder: produces the records.
            mark_of: returns the mark of the topic of a partition.
            space: how many records the write may have.
            now_ms: epoch ms.
        """
        self._known = {each.key: self._known.get(each.key, _Known()) for each in requests}
        buffered: dict[Partition, dict[int, TierRecord]] = {}
        for request in sorted(requests, key=lambda each: self._known[each.key].aborted):
            partition, known = Partition(request.key.topic, request.key.number), self._known[request.key]
            tier = tiers.get(partition)
            if tier is None or known.ended or now_ms < known.rests_until_ms:
                continue
            voided = OTHER_TOPIC if request.mark and is_other_topic(request.mark, mark_of(partition)) else ""
            if partition not in buffered:
                buffered[partition] = {record.offset: record for record in tier.waiting()}
            write = self._write(request, known, tier, buffered[partition], builder, space, now_ms, voided)
            if write is not None:
                return write
        return None

    def _write(
        self,
        request: WaitingRequest,
        known: _Known,
        tier: TierPartition,
        records: Mapping[int, TierRecord],
        builder: ReleaseBuilder,
        space: int,
        now_ms: int,
        voided: str,
    ) -> RequestedWrite | None:
        partition = Partition(request.key.topic, request.key.number)
        read_to = max(tier.progress.next_offset, tier.end)
        standing = Standing(list(records), read_to, tier.progress.apart, space, tier.space_for)
        step = next_step(request, standing, known.refused)
        release, taken = Release(), set[int]()
        voided = voided or known.failure or (TOO_LATE if now_ms >= request.until_ms else "")
        refused = Counter(known.refused.values())
        if voided:
            refused[voided] += len(step.take) + step.left
            step = Step((), 0, "")
        for offset in step.take:
            problem = builder.act(release, partition, records[offset], request, now_ms)
            if problem is None:
                taken.add(offset)
            else:
                known.refused[offset] = problem
                refused[problem] += 1
        ended = step.left == 0
        if not taken and not ended and step.why in {known.told, ""}:
            return None
        known.told = step.why
        tier.take_apart(taken)
        done = WaitingDone(len(taken), refused, step.left, step.why, ended)
        release.origins.append((partition, tier.progress.watermark))
        release.produced.append(ProducerRecord(self._control_topic, 0, *done_record(request.key, done, now_ms)))
        return RequestedWrite(request.key, release, ended)

    def committed(self, write: RequestedWrite) -> None:
        """Note that a write was committed."""
        if (known := self._known.get(write.key)) is not None:
            known.ended, known.aborted = write.ended, 0

    def aborted(self, write: RequestedWrite, now_ms: int, refusal: str = "") -> None:
        """Note that a write was aborted.

        If Kafka refuses it, the request ends undone; if it refuses that, too, the next attempt is a minute later.
        Nothing else depends on a request, so it halts no partition.
        """
        if (known := self._known.get(write.key)) is not None:
            known.told, known.aborted = None, known.aborted + 1
            if refusal and known.failure:
                known.rests_until_ms = now_ms + _REST_MS
            known.failure = refusal or known.failure
