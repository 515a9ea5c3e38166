"""Counts outcomes for the report to the observer."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.telemetry.observers import Committed, OutcomeLabel
from kafka_redelivery.consumers.writes.outcomes import Decided, Outcomes
from kafka_redelivery.topology.policy.decision import Ack, AckType, DeadLetter, Decision, Discard, Halt, Reason, Retry


class Tally:
    """The numbers of one write. Owned by the polling thread."""

    def __init__(self, success_ack: AckType) -> None:
        """Start at 0. ``success_ack``: acknowledgement type of a success."""
        self._success_ack = success_ack
        self.dropped: Counter[int] = Counter()
        """Number of records that the discarding strategy dropped, by report interval."""

        self._counts: Counter[OutcomeLabel] = Counter()
        self._redeliveries: Counter[tuple[str, int]] = Counter()
        self._dead_letters: Counter[tuple[str, str]] = Counter()
        self._discarded: Counter[tuple[str, str]] = Counter()
        self._recoveries: Counter[tuple[str, int]] = Counter()
        self._redriven: Counter[tuple[str, str]] = Counter()
        self._redriven_arrived: Counter[str] = Counter()
        self._lateness: list[int] = []
        self._seconds: list[float] = []

    def add(self, outcomes: Outcomes) -> None:
        """Count the outcomes of a work item."""
        item, source = outcomes.item, outcomes.assigned.route.source
        self._count_retries(source, outcomes)
        for each in outcomes.decided.values():
            if not isinstance(each.decision, Retry):
                self._count(outcomes, each)
        self._seconds += item.seconds
        unsuccessful = outcomes.unsuccessful()
        successes = item.position - len(unsuccessful)
        if successes:
            self._counts[OutcomeLabel(source, success_of(item), self._success_ack)] += successes
        if item.redelivered:
            self._lateness += [late_ms for _, late_ms in item.lateness]
            for lineage in outcomes.succeeded() if success_of(item) == "recovered" else ():
                self._recoveries[source, lineage.deliveries + 1] += 1
            if any(lineage.redrive for lineage in item.lineages):
                self._redriven.update((source, str(ended)) for _, _, ended in outcomes.redriven())
                self._redriven_arrived[source] += outcomes.arrived_again()

    def report(self, seconds: float) -> Committed:
        """Return the report for the observer.

        Args:
            seconds: duration of the write.
        """
        return Committed(
            seconds,
            self._counts,
            self._redeliveries,
            self._dead_letters,
            self._lateness,
            self._seconds,
            self._recoveries,
            self._discarded,
            self._redriven,
            self._redriven_arrived,
        )

    def _count_retries(self, source: str, outcomes: Outcomes) -> None:
        """Count the retries together: all records of an item may fail."""
        decided = outcomes.decided.values()
        retries = [(e.lineage.deliveries, e.decision.ack_type) for e in decided if isinstance(e.decision, Retry)]
        for (deliveries, ack_type), number in Counter(retries).items():
            self._redeliveries[source, deliveries] += number
            self._counts[OutcomeLabel(source, "retried", ack_type)] += number

    def _count(self, outcomes: Outcomes, decided: Decided) -> None:
        decision, route = decided.decision, outcomes.assigned.route
        outcome = outcome_of(decision)
        if outcome is None or isinstance(decision, Halt):
            return
        if isinstance(decision, DeadLetter):
            self._dead_letters[route.source, str(decision.reason)] += 1
        elif isinstance(decision, Discard):
            reason = decision.reason
            self._discarded[route.source, str(reason)] += 1
            interval = route.entry.dead_letter_strategy.report_interval(expired=reason is Reason.EXPIRED)
            if interval > 0 and reason is not Reason.DUPLICATE:
                self.dropped[interval] += 1
        self._counts[OutcomeLabel(route.source, outcome, decision.ack_type)] += 1


def outcome_of(decision: Decision) -> str | None:
    """Return the name of the outcome that a decision leads to; ``None`` if it halts the worker."""
    match decision:
        case Retry():
            return "retried"
        case DeadLetter():
            return "dead_lettered"
        case Ack():  # not reached: `failure` is never None here, and only None is acknowledged
            return "acked"
        case Discard():
            return "discarded"
        case Halt():
            return None
        case _:
            assert_never(decision)


def success_of(item: WorkItem) -> str:
    """Return the name of the outcome of a success."""
    redelivered = item.lane.assigned.redelivered or (item.in_place is not None and item.in_place.deliveries > 0)
    return "recovered" if redelivered else "acked"
