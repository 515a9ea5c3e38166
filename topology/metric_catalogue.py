"""Every metric there is: the one list that code, documentation, dashboards and alerts share.

Names are an interface. Labels are bounded: topics, tiers, outcomes, reasons, roles; never keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Prometheus's kinds."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. A counter's ``name`` is without the ``_total`` that the exposition adds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, ascending, in its unit; +Inf is added."""


_LATENESS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_HANDLER_S = (0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
_WRITE_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)

DELIVERIES = Metric(
    "redelivery_deliveries",
    Kind.COUNTER,
    "Deliveries that ended, by outcome and ActiveMQ acknowledgement type",
    ("topic", "outcome", "ack_type"),
)
REDELIVERIES = Metric(
    "redelivery_redeliveries",
    Kind.COUNTER,
    "Redeliveries decided, by the attempt that failed (10+ together)",
    ("topic", "attempt"),
)
DEAD_LETTERS = Metric("redelivery_dead_letters", Kind.COUNTER, "Records dead-lettered", ("topic", "reason"))
DELIVERY_LATENESS = Metric(
    "redelivery_delivery_lateness_seconds",
    Kind.HISTOGRAM,
    "How long after it was due a redelivery was handed to the handler",
    buckets=_LATENESS_S,
)
RELEASE_LATENESS = Metric(
    "redelivery_release_lateness_seconds",
    Kind.HISTOGRAM,
    "How long after it was due a record's release was committed",
    buckets=_LATENESS_S,
)
EARLY = Metric("redelivery_early", Kind.COUNTER, "Redeliveries before their due time; must stay 0", ("where",))
HANDLER_TIME = Metric("redelivery_handler_seconds", Kind.HISTOGRAM, "Time in the handler", buckets=_HANDLER_S)
COMMIT_TIME = Metric(
    "redelivery_commit_seconds", Kind.HISTOGRAM, "Time of one write: copies and offsets", buckets=_WRITE_S
)
UNDONE = Metric("redelivery_commits_undone", Kind.COUNTER, "Writes that were undone and done again")
MOVED = Metric("redelivery_tier_moves", Kind.COUNTER, "Records that went on to a lower tier")
CLOCK_FAULTS = Metric("redelivery_clock_faults", Kind.COUNTER, "Records whose due time cannot be true")
PENDING = Metric("redelivery_pending", Kind.GAUGE, "Records that wait in a tier", ("tier",))
OLDEST = Metric("redelivery_pending_oldest_timestamp_seconds", Kind.GAUGE, "Since when the oldest one waits", ("tier",))
LAG = Metric("redelivery_lag", Kind.GAUGE, "Records not finished, measured at the end of the partitions", ("topic",))
ASSIGNED = Metric("redelivery_assigned_partitions", Kind.GAUGE, "Partitions owned")
IN_FLIGHT = Metric("redelivery_in_flight", Kind.GAUGE, "Records in the slots or in line for them")
HALTED_PARTITIONS = Metric("redelivery_halted_partitions", Kind.GAUGE, "Partitions not read until a restart")
HALTS = Metric("redelivery_halts", Kind.COUNTER, "Stops to protect data")
REBALANCES = Metric("redelivery_rebalances", Kind.COUNTER, "Changes of the assignment", ("event",))
BUILD = Metric("redelivery_build_info", Kind.GAUGE, "Always 1", ("version", "role", "group", "instance"))

CATALOGUE: tuple[Metric, ...] = (
    DELIVERIES,
    REDELIVERIES,
    DEAD_LETTERS,
    DELIVERY_LATENESS,
    RELEASE_LATENESS,
    EARLY,
    HANDLER_TIME,
    COMMIT_TIME,
    UNDONE,
    MOVED,
    CLOCK_FAULTS,
    PENDING,
    OLDEST,
    LAG,
    ASSIGNED,
    IN_FLIGHT,
    HALTED_PARTITIONS,
    HALTS,
    REBALANCES,
    BUILD,
)
