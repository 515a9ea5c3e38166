"""``enableAudit``: what this process has dead-lettered, so that a duplicate is not dead-lettered again.

A duplicate is a second copy of one redelivery, as a crash can leave in the modes that are at least once. It bears the
same origin as the first, and so does a record that was redriven: but that one comes to the ready topic without a due
time, and may die again. The memory of a partition ends when it comes or goes, or its partner of the ready topic does,
so whoever remembers has seen all that was redriven since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from topology.classic.audit import DuplicateAudit, StrategyAudit
from topology.lineage import Lineage
from topology.policy import DeadLetterKind, DeadLetterStrategy, PolicyEntry


class Audits:
    """Owned by one thread. Bounded by ``maxAuditDepth`` and ``maxProducersToAudit`` of each strategy."""

    def __init__(self, entries: Mapping[str, PolicyEntry] | None = None) -> None:
        """Nothing was dead-lettered.

        Args:
            entries: what is configured, by source topic.
        """
        self._audits: dict[str, DuplicateAudit] = {}
        strategies: dict[DeadLetterStrategy, StrategyAudit] = {}
        for source, entry in ({} if entries is None else entries).items():
            strategy = entry.dead_letter_strategy
            if strategy.enable_audit:
                shared = strategy.kind is DeadLetterKind.SHARED
                made = StrategyAudit(shared, strategy.max_audit_depth, strategy.max_producers_to_audit)
                self._audits[source] = strategies.setdefault(strategy, made).of(source)

    def is_duplicate(self, lineage: Lineage, hop: str = "") -> bool:
        """Note that a record is dead-lettered; whether that was noted before.

        Args:
            lineage: of the record.
            hop: what tells its copies apart, where the origin alone says too little.
        """
        audit = self._audits.get(lineage.address)
        return audit is not None and audit.is_duplicate(_producer(lineage, hop), lineage.offset)

    def forget(self, lineages: Iterable[Lineage], hop: str = "") -> None:
        """These have not been dead-lettered after all, or may be again."""
        for lineage in lineages:
            audit = self._audits.get(lineage.address)
            if audit is not None:
                audit.forget(_producer(lineage, hop), lineage.offset)

    def leave(self, source: str, partition: int) -> None:
        """Remember nothing of a partition."""
        audit = self._audits.get(source)
        if audit is not None:
            audit.drop(f"{source}-{partition}")


def _producer(lineage: Lineage, hop: str) -> str:
    """On Kafka that is the partition, and the sequence number the offset."""
    return f"{lineage.address}-{lineage.partition}{hop}"
