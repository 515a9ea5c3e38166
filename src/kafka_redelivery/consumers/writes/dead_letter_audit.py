"""``enableAudit``: the records that this process has dead-lettered, so that it dead-letters no duplicate.

A duplicate is a second retry record of the same redelivery. A crash can leave one in the modes that are at least once.
A redriven record has the same origin, but arrives in the ready topic without a due time and may be dead-lettered again.
A record with damaged headers is no duplicate of any other, because part of its lineage may be wrong. Nor is one of a
source that was deleted and created again: it has another time. An imported message counts as no duplicate either:
beside its number, those of the records of its partition would be too low to be remembered.
The audit of a partition starts anew when the source partition or its ready partition is assigned or revoked. It has
therefore seen every record that was redriven since its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_redelivery.topology.classic.audit import DuplicateAudit, StrategyAudit
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry
from kafka_redelivery.topology.policy.lineage import IMPORTED_OFFSETS, Lineage


class DeadLetterAudit:
    """Dead-lettered records. Owned by one thread.

    ``maxAuditDepth`` and ``maxProducersToAudit`` of each strategy bound their number.
    """

    def __init__(self, entries: Mapping[str, PolicyEntry] | None = None) -> None:
        """Start empty, with the policy entries by source topic."""
        self._audits: dict[str, DuplicateAudit] = {}
        strategies: dict[DeadLetterStrategy, StrategyAudit] = {}
        for source, entry in ({} if entries is None else entries).items():
            strategy = entry.dead_letter_strategy
            if strategy.enable_audit:
                shared = strategy.kind is DeadLetterKind.SHARED
                made = StrategyAudit(shared, strategy.max_audit_depth, strategy.max_producers_to_audit)
                self._audits[source] = strategies.setdefault(strategy, made).of(source)

    def is_duplicate(self, lineage: Lineage, suffix: str = "") -> bool:
        """Add a dead-lettered record, and return whether it was there before.

        Args:
            lineage: lineage of the record.
            suffix: distinguishes several dead letters of one origin; part of the producer's name in the audit.
        """
        audit = self._audit_of(lineage)
        return audit is not None and audit.is_duplicate(
            _producer(lineage, suffix), lineage.offset, lineage.timestamp_ms
        )

    def withdraw(self, lineages: Iterable[Lineage], suffix: str = "") -> None:
        """Remove records: they were not dead-lettered after all, or may be dead-lettered again."""
        for lineage in lineages:
            audit = self._audit_of(lineage)
            if audit is not None:
                audit.withdraw(_producer(lineage, suffix), lineage.offset)

    def _audit_of(self, lineage: Lineage) -> DuplicateAudit | None:
        return None if lineage.offset >= IMPORTED_OFFSETS else self._audits.get(lineage.address)

    def drop_partition(self, source: str, number: int, modulus: int | None = None) -> None:
        """Remove all records of a source partition.

        Args:
            source: the source topic.
            number: the number of the partition.
            modulus: number of partitions of the ready topic; ``number`` is then one of these, and the records of all
                source partitions that share it are removed.
        """

        def matches(producer: str) -> bool:
            address, _, partition = producer.rpartition("-")
            found = int(partition)
            return address == source and number == (found if modulus is None else found % modulus)

        audit = self._audits.get(source)
        if audit is not None:
            audit.drop(matches)


def _producer(lineage: Lineage, suffix: str) -> str:
    """Return the partition as ActiveMQ's producer; the offset is its sequence number."""
    return f"{lineage.address}-{lineage.partition}{suffix}"
