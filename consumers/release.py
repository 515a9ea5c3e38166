"""Where a record goes when it leaves its tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consumers.routes import Waiting, naming_of
from consumers.tier import Held
from topology.decision import DeadLetter, Failure, FailureKind, Reason
from topology.errors import HeaderError
from topology.headers import HeaderList, dead_letter_headers, read_lineage, ready_headers
from topology.lineage import Lineage
from topology.settings import Settings
from topology.tiers import TierSet
from transport.message_headers import headers_of
from transport.protocols import Copy, Partition


@dataclass(slots=True)
class Release:
    """One write of the scheduler."""

    copies: list[Copy] = field(default_factory=list)
    owners: list[tuple[Partition, int]] = field(default_factory=list)
    """For each copy, the record of the tier that it stands for."""

    due_ms: list[int] = field(default_factory=list)
    """Of each record that becomes ready."""

    moved: int = 0
    undeliverable: int = 0


class Releaser:
    """Makes the copies. Knows the topics as they are in the cluster now."""

    def __init__(self, settings: Settings, tiers: TierSet, partitions: Mapping[str, int]) -> None:
        naming = naming_of(settings)
        self._group = settings.group
        self._waiting = Waiting(naming, tiers, partitions)
        self._ready = {source.topic: naming.ready_topic(source.topic) for source in settings.sources}
        self._dead_letter = {
            topic: naming.dead_letter_topic(entry.dead_letter_strategy.topic, topic)
            for topic, entry in settings.entries().items()
        }
        self._any_dead_letter = next(name for name in self._dead_letter.values())

    def add(self, release: Release, place: Partition, held: Held, now_ms: int, refusal: str | None) -> None:
        """Add the copy of one record to a write.

        Args:
            release: the write.
            place: the tier's partition.
            held: the record.
            now_ms: epoch ms.
            refusal: why the broker refused its copy before, ``None`` if it did not.
        """
        headers = headers_of(held.message)
        release.owners.append((place, held.offset))
        try:
            lineage = read_lineage(headers)
        except HeaderError as error:
            message = held.message
            lineage = Lineage(place.topic, place.number, held.offset, message.timestamp()[1])
            self._bury(release, held, lineage, Reason.BAD_HEADERS, str(error), now_ms)
            return
        target = self._ready.get(lineage.address)
        if refusal is not None:
            self._bury(release, held, lineage, Reason.UNDELIVERABLE, refusal, now_ms)
        elif target is None:
            problem = f"{lineage.address} is not among the sources of group {self._group}"
            self._bury(release, held, lineage, Reason.UNDELIVERABLE, problem, now_ms)
        elif not held.final and held.due_ms > now_ms:
            release.moved += 1
            self._copy(release, self._waiting.place(held.due_ms - now_ms), held, lineage, list(headers))
        else:
            release.due_ms.append(held.due_ms)
            self._copy(release, target, held, lineage, ready_headers(headers))

    def _copy(self, release: Release, topic: str, held: Held, lineage: Lineage, headers: HeaderList) -> None:
        partition = self._waiting.partition(topic, lineage.partition)
        message = held.message
        release.copies.append(Copy(topic, partition, message.key(), message.value(), headers))

    def _bury(self, release: Release, held: Held, lineage: Lineage, reason: Reason, problem: str, now_ms: int) -> None:
        """What cannot be released is dead-lettered with its cause; it never blocks the tier."""
        release.undeliverable += 1
        topic = self._dead_letter.get(lineage.address, self._any_dead_letter)
        failure = Failure(FailureKind.UNDELIVERABLE, "Undeliverable", problem)
        headers = dead_letter_headers(
            lineage, self._group, headers_of(held.message), DeadLetter(reason, failure), now_ms
        )
        self._copy(release, topic, held, lineage, headers)
