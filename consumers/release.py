"""Where a record goes when it leaves its tier."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from consumers.audits import Audits
from consumers.errors import HaltedError
from consumers.observer import OutcomeLabel
from consumers.routes import Waiting
from consumers.tier import Held
from topology.decision import DeadLetter, Discard, Failure, FailureKind, decide, suppressed
from topology.errors import HeaderError
from topology.headers import HeaderList, dead_letter_headers, read_lineage, ready_headers
from topology.lineage import Lineage
from topology.policy import DeadLetterKind
from topology.settings import Settings
from topology.tiers import TierSet
from transport.message_headers import headers_of
from transport.protocols import Copy, Partition

_log = logging.getLogger(__name__)

UNKNOWN_SOURCE = "(unknown)"
"""In metrics, instead of an origin that is not configured: what a header says is not bounded."""


@dataclass(slots=True)
class Release:
    """One write of the scheduler."""

    copies: list[Copy] = field(default_factory=list)
    owners: list[tuple[Partition, int]] = field(default_factory=list)
    """For each copy, the record of the tier that it stands for."""

    due_ms: list[int] = field(default_factory=list)
    """Of each record that becomes ready."""

    moved: int = 0
    outcomes: Counter[OutcomeLabel] = field(default_factory=Counter)
    """Of records that cannot be released."""

    dead_letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those among them that are dead-lettered, by source topic and reason."""

    discarded: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The same of those that are dropped."""

    noted: list[tuple[Lineage, str]] = field(default_factory=list)
    """What the audits know because of it: origin and hop."""


class Releaser:
    """Makes the copies. Knows the topics as they are in the cluster now."""

    def __init__(
        self, settings: Settings, tiers: TierSet, partitions: Mapping[str, int], audits: Audits | None = None
    ) -> None:
        """Prepare.

        Args:
            settings: the configuration.
            tiers: all of the group.
            partitions: of each topic of the cluster.
            audits: what was dead-lettered before.
        """
        self._audits = Audits() if audits is None else audits
        naming = settings.naming()
        self._group = settings.group
        self._waiting = Waiting(naming, tiers, partitions)
        self._ready = {source.topic: naming.ready_topic(source.topic) for source in settings.sources}
        self._entries = settings.entries()
        self._dead_letter = {
            topic: naming.dead_letter_topic(entry.dead_letter_strategy.topic, topic)
            for topic, entry in self._entries.items()
        }
        kept = [
            topic
            for topic, entry in self._entries.items()
            if entry.dead_letter_strategy.kind is not DeadLetterKind.DISCARDING
        ]
        self._stand_in = next(iter(kept or self._entries))
        """The source whose policy is applied to records of an origin that is not configured."""

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
        try:
            lineage = read_lineage(headers)
        except HeaderError as error:
            lineage = Lineage(place.topic, place.number, held.offset, held.message.timestamp()[1])
            failure = Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
            self._bury(release, place, held, lineage, failure, now_ms)
            return
        target = self._ready.get(lineage.address)
        if refusal is not None:
            problem = refusal
        elif target is None:
            problem = f"{lineage.address} is not among the sources of group {self._group}"
        elif target not in self._waiting.partitions:
            problem = f"there is no topic {target}"
        elif not held.final and held.due_ms > now_ms:
            release.moved += 1
            self._copy(release, place, held, self._waiting.place(held.due_ms - now_ms), lineage, list(headers))
            return
        else:
            release.due_ms.append(held.due_ms)
            self._copy(release, place, held, target, lineage, ready_headers(headers))
            return
        failure = Failure(FailureKind.UNDELIVERABLE, "Undeliverable", problem)
        self._bury(release, place, held, lineage, failure, now_ms)

    def _copy(
        self, release: Release, place: Partition, held: Held, topic: str, lineage: Lineage, headers: HeaderList
    ) -> None:
        partition = self._waiting.partition(topic, lineage.partition)
        message = held.message
        release.owners.append((place, held.offset))
        release.copies.append(Copy(topic, partition, message.key(), message.value(), headers))

    def _bury(
        self, release: Release, place: Partition, held: Held, lineage: Lineage, failure: Failure, now_ms: int
    ) -> None:
        """What cannot be released is dead-lettered with its cause; it never blocks the tier."""
        where = f"{place.topic}-{place.number}@{held.offset}"
        _log.warning("%s cannot be released: %s", where, failure.message)
        known = lineage.address in self._entries
        source = lineage.address if known else self._stand_in
        label = lineage.address if known else UNKNOWN_SOURCE
        decision = decide(failure, lineage, self._entries[source], now_ms)
        if isinstance(decision, DeadLetter):
            hop = f"/{held.due_ms}"  # a redelivery of another time is another one
            if self._audits.is_duplicate(lineage, hop):
                decision = suppressed(decision)
                _log.warning("%s is not dead-lettered again: another copy of it was", lineage.message_id)
            else:
                release.noted.append((lineage, hop))
        match decision:
            case DeadLetter():
                topic = self._dead_letter[source]
                if topic not in self._waiting.partitions:
                    raise HaltedError(
                        f"{where} cannot be released ({failure.message}), and there is no topic {topic} for it; "
                        "mend with `redelivery topology apply`"
                    )
                headers = dead_letter_headers(lineage, self._group, headers_of(held.message), decision, now_ms)
                self._copy(release, place, held, topic, lineage, headers)
                release.outcomes[OutcomeLabel(label, "dead_lettered", decision.ack_type)] += 1
                release.dead_letters[label, str(decision.reason)] += 1
            case Discard():
                release.discarded[label, str(decision.reason)] += 1
                release.outcomes[OutcomeLabel(label, "discarded", decision.ack_type)] += 1
            case _:
                raise AssertionError(f"no failure of a release is retried: {decision}")
