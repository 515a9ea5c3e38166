"""The records that handlers have left unacknowledged, as the polling thread sees them."""

from __future__ import annotations

import logging
from datetime import timedelta
from itertools import islice, takewhile

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.flow.session import RECOVERED, DeliveredRecord, Disposition, Sessions
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.topology.policy.decision import Failure, FailureKind

_log = logging.getLogger(__name__)

_MAX_WAIT_S = 0.02
"""Longest time until an acknowledgement is noticed: a wait of the Kafka client for new records is not interrupted."""

WARN_AFTER_S = 60.0
"""Age of an unacknowledged record at which a warning is logged, and shortest time between two warnings."""


class Unacknowledged:
    """Retains unacknowledged records until they have an outcome. Only the polling thread uses it.

    They count as buffered, so that the limits of the buffer include them.
    """

    def __init__(self, sessions: Sessions, timeout: timedelta | None = None) -> None:
        """Start without records.

        Args:
            sessions: the sessions of all slots.
            timeout: after this time, an unacknowledged record has failed; ``None`` = no limit.
        """
        self._sessions = sessions
        self._timeout_s = None if timeout is None else timeout.total_seconds()
        self._retained: dict[DeliveredRecord, None] = {}
        """In the order in which they were retained."""

        self._warned_s = 0.0

    def __len__(self) -> int:
        return len(self._retained)

    def max_wait_s(self, max_s: float) -> float:
        """Return for how many seconds acknowledgements may go unnoticed, at most ``max_s``."""
        return min(max_s, _MAX_WAIT_S) if self._retained else max_s

    def retain(self, item: WorkItem) -> None:
        """Retain the unacknowledged records of a work item whose other outcomes are in the batch."""
        now_s, failed = monotonic_s(), {index for index, _ in item.failures}
        for index, delivery in item.unacknowledged:
            if index in failed:  # the handler returned, but its output cannot be written
                self._end(delivery)
            elif not delivery.ended:
                delivery.retained_at_s = now_s
                self._retained[delivery] = None
                delivery.lane.buffer((delivery.message,))

    def void(self, item: WorkItem) -> None:
        """End the deliveries of a work item whose result is ignored, except for those retained before."""
        for _, delivery in item.unacknowledged:
            if not delivery.retained_at_s:
                self._end(delivery)

    def close(self, assigned: AssignedPartition) -> None:
        """End the deliveries of a partition that is no longer owned or starts again from its committed offset."""
        for delivery in [each for each in self._retained if each.lane.assigned is assigned]:
            self._end(delivery)
        self._sessions.close_partition(assigned)

    def add_dispositions(self, batch: Batch) -> None:
        """Add the records to the batch that were acknowledged or recovered, or that have timed out."""
        not_retained = []
        for delivery in self._sessions.take_dispositions():
            assigned, message = delivery.lane.assigned, delivery.message
            if delivery.ended or assigned.closed:
                continue
            if delivery not in self._retained:
                not_retained.append(delivery)  # its work item, with its output, has not been taken from the slot yet
                continue
            self._end(delivery)
            lineage = lineage_of(assigned, message)
            if delivery.disposition is Disposition.ACKNOWLEDGED:
                batch.acknowledge(assigned, message, lineage, delivery.outputs)
            else:
                batch.add_failure(assigned, message, lineage, RECOVERED)
        for delivery in not_retained:
            self._sessions.dispositions.put(delivery)
        if self._retained:
            self._check_age(batch, monotonic_s())

    def _check_age(self, batch: Batch, now_s: float) -> None:
        if self._timeout_s is not None:
            self._fail_overdue(batch, self._timeout_s)
        oldest_s = now_s - min((each.retained_at_s for each in islice(self._retained, 1)), default=now_s)
        if oldest_s >= WARN_AFTER_S and now_s - self._warned_s >= WARN_AFTER_S:
            self._warned_s = now_s
            _log.warning(
                "%d records are unacknowledged, the oldest for %.0f s; the worker stops fetching when they fill the "
                "buffer (limits.bufferRecords)",
                len(self._retained),
                oldest_s,
            )

    def _fail_overdue(self, batch: Batch, timeout_s: float) -> None:
        failure = Failure(FailureKind.DEADLINE, "NotAcknowledged", f"not acknowledged within {timeout_s:g} s")
        limit_s = seconds_ago(timeout_s)
        for delivery in list(takewhile(lambda each: each.retained_at_s <= limit_s, self._retained)):
            if not self._sessions.close(delivery):
                continue  # acknowledged or recovered just now; the disposition is in the queue
            self._end(delivery)
            assigned, message = delivery.lane.assigned, delivery.message
            batch.add_failure(assigned, message, lineage_of(assigned, message), failure)

    def _end(self, delivery: DeliveredRecord) -> None:
        delivery.ended = True
        self._sessions.close(delivery)
        if delivery in self._retained:
            del self._retained[delivery]
            delivery.lane.unbuffer((delivery.message,))
