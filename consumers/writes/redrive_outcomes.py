"""What became of records that were sent again from a dead-letter topic, as records of the topic of the actions."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_redelivery.consumers.writes.outcomes import Outcomes
from kafka_redelivery.topology.policy.decision import Decision
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.actions import Outcome, outcome_of, outcome_record
from kafka_redelivery.topology.wire.redrive_mark import RedriveMark, parse_mark
from kafka_redelivery.transport.protocols import ProducerRecord


class RedriveOutcomes:
    """Makes the records. They are part of the write that ends the record they are about."""

    def __init__(self, topic: str, partitions: Mapping[str, int]) -> None:
        """Take the topic of the actions, and the partition counts of all topics. Without the topic nothing is made."""
        self._topic = topic
        self._partitions = partitions.get(topic, 0)

    def of(self, outcomes: Outcomes, now_ms: int) -> list[tuple[int, ProducerRecord]]:
        """Return the records for a work item, each with the offset of the consumed record."""
        if not self._partitions:
            return []
        messages = outcomes.item.messages
        return [(messages[at].offset(), self._record(mark, ended, now_ms)) for at, mark, ended in outcomes.redriven()]

    def record(self, lineage: Lineage, decision: Decision | None, now_ms: int) -> ProducerRecord | None:
        """Return the record for a decision, or for a success; ``None`` if the record was not sent again, or goes on."""
        mark, outcome = parse_mark(lineage.redrive), outcome_of(decision)
        if mark is None or outcome is None or not self._partitions:
            return None
        return self._record(mark, outcome, now_ms)

    def _record(self, mark: RedriveMark, outcome: Outcome, now_ms: int) -> ProducerRecord:
        key, value = outcome_record(mark, outcome, now_ms)
        return ProducerRecord(self._topic, mark.slice % self._partitions, key, value)
