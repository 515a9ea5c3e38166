"""Every metric there is: the one list that code, documentation, dashboards and alerts share.

Names are an interface. Labels are bounded: topics, tiers, outcomes, reasons, roles; never keys. Every metric also
bears :data:`COMMON`, so that a rule or a panel knows the group without a join.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

COMMON = ("group", "role")
"""Labels of every metric: the consumer group, and ``worker``, ``scheduler`` or ``stream``."""


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
    """Beside :data:`COMMON`."""

    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, ascending, in its unit; +Inf is added."""


_LATENESS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_HANDLER_S = (0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
_MICRO_BATCH_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_MICRO_BATCH_RECORDS = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
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
SUCCESSES = Metric(
    "redelivery_successes",
    Kind.COUNTER,
    "Records acknowledged, by the attempt that succeeded (10+ together)",
    ("topic", "attempt"),
)
DEAD_LETTERS = Metric("redelivery_dead_letters", Kind.COUNTER, "Records dead-lettered", ("topic", "reason"))
DISCARDED = Metric(
    "redelivery_discarded", Kind.COUNTER, "Records dropped instead of dead-lettered, by reason", ("topic", "reason")
)
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
FENCED = Metric("redelivery_fenced", Kind.COUNTER, "Producers fenced by another process of the same name")
MOVED = Metric("redelivery_tier_moves", Kind.COUNTER, "Records that went on to a lower tier")
CLOCK_FAULTS = Metric("redelivery_clock_faults", Kind.COUNTER, "Records whose due time cannot be true")
PENDING = Metric("redelivery_pending", Kind.GAUGE, "Records that wait in a tier", ("tier",))
OLDEST = Metric("redelivery_pending_oldest_timestamp_seconds", Kind.GAUGE, "Since when the oldest one waits", ("tier",))
TIER_DELAY = Metric("redelivery_tier_delay_seconds", Kind.GAUGE, "The longest that a record waits in a tier", ("tier",))
DEAD_LETTER_DEPTH = Metric(
    "redelivery_dead_letter_depth",
    Kind.GAUGE,
    "Dead letters that are kept and have not expired, by origin and reason",
    ("topic", "reason"),
)
DEAD_LETTER_EXPIRED = Metric(
    "redelivery_dead_letter_expired",
    Kind.GAUGE,
    "Dead letters that are kept though their own expiration has passed",
    ("topic", "reason"),
)
DEAD_LETTER_OLDEST = Metric(
    "redelivery_dead_letter_oldest_timestamp_seconds",
    Kind.GAUGE,
    "Since when the oldest dead letter that has not expired is kept",
    ("topic", "reason"),
)
DEAD_LETTER_RETENTION = Metric(
    "redelivery_dead_letter_retention_seconds",
    Kind.GAUGE,
    "How long the topic keeps a dead letter; absent = for ever",
    ("dead_letter_topic",),
)
DEAD_LETTER_DELETION = Metric(
    "redelivery_dead_letter_deletion_timestamp_seconds",
    Kind.GAUGE,
    "From when on retention may delete a dead letter before its own expiration; absent = never",
    ("dead_letter_topic",),
)
DEAD_LETTER_UNREAD = Metric(
    "redelivery_dead_letter_unread",
    Kind.GAUGE,
    "Dead letters not counted yet: the other figures are too low by these",
    ("dead_letter_topic",),
)
REMOVED = Metric(
    "redelivery_expired_removed", Kind.COUNTER, "Expired dead letters removed for good", ("dead_letter_topic",)
)
EXPIRED_MOVED = Metric(
    "redelivery_expired_moved", Kind.COUNTER, "Expired dead letters moved to their expiry topic", ("dead_letter_topic",)
)
SWEEP_REFUSED = Metric(
    "redelivery_sweep_refused",
    Kind.COUNTER,
    "Times that Kafka refused to move or to remove expired dead letters",
    ("dead_letter_topic",),
)
SWEEP_CLOCK_FAULTS = Metric(
    "redelivery_sweep_clock_faults", Kind.COUNTER, "Times that the clock was ahead, so that nothing was removed by it"
)
SWEEP_NEXT = Metric(
    "redelivery_sweep_next_timestamp_seconds",
    Kind.GAUGE,
    "When the next dead letter at the head of a partition expires",
    ("dead_letter_topic",),
)
SWEEP_RESTING = Metric(
    "redelivery_sweep_resting_partitions",
    Kind.GAUGE,
    "Partitions whose head is not removed now, by the reason",
    ("dead_letter_topic", "reason"),
)
LAG = Metric("redelivery_lag", Kind.GAUGE, "Records not finished, measured at the end of the partitions", ("topic",))
ASSIGNED = Metric("redelivery_assigned_partitions", Kind.GAUGE, "Partitions owned")
IN_FLIGHT = Metric("redelivery_in_flight", Kind.GAUGE, "Records in the slots or in line for them")
UNACKNOWLEDGED = Metric(
    "redelivery_unacknowledged", Kind.GAUGE, "Records that their handlers left unacknowledged (client, individual)"
)
UNOWNED = Metric(
    "redelivery_unowned_partitions",
    Kind.GAUGE,
    "Partitions that no process of the group has, as Kafka tells",
    ("topic",),
)
MICRO_BATCH_TIME = Metric(
    "redelivery_micro_batch_seconds",
    Kind.HISTOGRAM,
    "Time of one micro-batch of a streaming query, planning included",
    buckets=_MICRO_BATCH_S,
)
MICRO_BATCH_RECORDS = Metric(
    "redelivery_micro_batch_records",
    Kind.HISTOGRAM,
    "Records that one micro-batch read; a replayed one reads them again",
    buckets=_MICRO_BATCH_RECORDS,
)
BEHIND_LATEST = Metric(
    "redelivery_behind_latest_offsets",
    Kind.GAUGE,
    "Offsets that a micro-batch left for later ones, markers of transactions among them",
    ("topic",),
)
QUERY_PROGRESS = Metric(
    "redelivery_query_progress_timestamp_seconds",
    Kind.GAUGE,
    "When the streaming query last finished a micro-batch, or rested between two",
)
HALTED_PARTITIONS = Metric("redelivery_halted_partitions", Kind.GAUGE, "Partitions not read until a restart")
HALTS = Metric("redelivery_halts", Kind.COUNTER, "Stops to protect data")
REBALANCES = Metric("redelivery_rebalances", Kind.COUNTER, "Changes of the assignment", ("event",))
ALIVE = Metric("redelivery_alive_timestamp_seconds", Kind.GAUGE, "When the polling thread last told how it stands")
STARTED = Metric("redelivery_started_timestamp_seconds", Kind.GAUGE, "When the process started")
BUILD = Metric("redelivery_build_info", Kind.GAUGE, "Always 1", ("version", "instance"))

CATALOGUE: tuple[Metric, ...] = (
    DELIVERIES,
    REDELIVERIES,
    SUCCESSES,
    DEAD_LETTERS,
    DISCARDED,
    DELIVERY_LATENESS,
    RELEASE_LATENESS,
    EARLY,
    HANDLER_TIME,
    COMMIT_TIME,
    UNDONE,
    FENCED,
    MOVED,
    CLOCK_FAULTS,
    PENDING,
    OLDEST,
    TIER_DELAY,
    DEAD_LETTER_DEPTH,
    DEAD_LETTER_EXPIRED,
    DEAD_LETTER_OLDEST,
    DEAD_LETTER_RETENTION,
    DEAD_LETTER_DELETION,
    DEAD_LETTER_UNREAD,
    REMOVED,
    EXPIRED_MOVED,
    SWEEP_REFUSED,
    SWEEP_CLOCK_FAULTS,
    SWEEP_NEXT,
    SWEEP_RESTING,
    LAG,
    ASSIGNED,
    UNOWNED,
    IN_FLIGHT,
    UNACKNOWLEDGED,
    MICRO_BATCH_TIME,
    MICRO_BATCH_RECORDS,
    BEHIND_LATEST,
    QUERY_PROGRESS,
    HALTED_PARTITIONS,
    HALTS,
    REBALANCES,
    ALIVE,
    STARTED,
    BUILD,
)
