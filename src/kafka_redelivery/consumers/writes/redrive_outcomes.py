"""What became of records that were sent again from a dead-letter topic, as records of the topic of the actions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.writes.outcomes import Outcomes
from kafka_redelivery.topology.policy.decision import Decision
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.actions import Outcome, outcome_of, outcome_record
from kafka_redelivery.topology.wire.headers import RedriveMark, parse_mark
from kafka_redelivery.transport.protocols import ProducerRecord

_log = logging.getLogger(__name__)

_ASK_AGAIN_S: Final = 1.0
_WARN_AGAIN_S: Final = 60.0


class RedriveOutcomes:
    """Makes the records. They are part of the write that ends the record they are about.

    The topic may be created after the process has started, or the cluster may not have shown it then. So it is looked
    up again when a record needs it, at most once a second. An outcome for which there is still no topic is logged.
    """

    def __init__(
        self,
        topic: str,
        partitions: Mapping[str, int],
        look_up: Callable[[list[str]], Mapping[str, int]] = lambda _: {},
        clock_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """Prepare.

        Args:
            topic: the topic of the actions.
            partitions: the partition counts of the topics that the process knows.
            look_up: asks the cluster for the partition counts of topics; waits while it does not answer.
            clock_s: monotonic seconds.
        """
        self._topic = topic
        self._partitions = partitions.get(topic, 0)
        self._look_up = look_up
        self._clock_s = clock_s
        self._asked_s = self._warned_s = -inf
        self._unknown = 0
        """Outcomes that could not be noted, and that the log does not mention yet."""

    def forget_topic(self) -> None:
        """Look the topic up again for the next record that needs it: it is not among those that exist."""
        self._partitions, self._asked_s = 0, -inf

    def of(self, outcomes: Outcomes, now_ms: int) -> list[tuple[int, ProducerRecord]]:
        """Return the records for outcomes, each with the offset of the consumed record."""
        ended = list(outcomes.redriven())
        if not ended or not self._known(len(ended)):
            return []
        messages = outcomes.messages
        return [(messages[at].offset(), self._record(mark, outcome, now_ms)) for at, mark, outcome in ended]

    def record(self, lineage: Lineage, decision: Decision | None, now_ms: int) -> ProducerRecord | None:
        """Return the record for a decision, or for a success; ``None`` if the record was not sent again, or goes on."""
        mark, outcome = parse_mark(lineage.redrive), outcome_of(decision)
        if mark is None or outcome is None or not self._known(1):
            return None
        return self._record(mark, outcome, now_ms)

    def _known(self, wanted: int) -> bool:
        """Return whether there is the topic; log otherwise that ``wanted`` outcomes stay unknown."""
        if self._partitions:
            return True
        now_s = self._clock_s()
        if now_s - self._asked_s >= _ASK_AGAIN_S:
            self._partitions = self._look_up([self._topic]).get(self._topic, 0)
            self._asked_s = self._clock_s()
        if self._partitions:
            return True
        self._unknown += wanted
        if now_s - self._warned_s >= _WARN_AGAIN_S:
            _log.warning(
                "the outcome of %d records that were sent again stays unknown: there is no topic %s, or its Describe "
                "right is missing; run `redelivery topology apply` and `redelivery topology acls`",
                self._unknown,
                self._topic,
            )
            self._warned_s, self._unknown = now_s, 0
        return False

    def _record(self, mark: RedriveMark, outcome: Outcome, now_ms: int) -> ProducerRecord:
        key, value = outcome_record(mark, outcome, now_ms)
        return ProducerRecord(self._topic, mark.slice % self._partitions, key, value)
