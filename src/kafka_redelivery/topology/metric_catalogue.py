"""The list of all metrics, shared by code, documentation, dashboards and alerts.

Names and labels are a public interface. Label values are bounded: topics, tiers, outcomes, reasons and roles, never
keys. Every metric also has the labels of :data:`COMMON`, so that alert rules and panels need no join to find the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

COMMON = ("group", "role")
"""Labels of every metric: the consumer group, and the role ``worker``, ``scheduler`` or ``stream``."""


class Kind(StrEnum):
    """Prometheus's metric types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. The ``name`` of a counter does not include the suffix ``_total``, which the exposition adds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    """The labels besides :data:`COMMON`."""

    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets, ascending, in its unit; the exposition adds +Inf."""


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
    "Redeliveries scheduled, by the number of the failed attempt (10 and above together)",
    ("topic", "attempt"),
)
SUCCESSES = Metric(
    "redelivery_successes",
    Kind.COUNTER,
    "Records acknowledged, by the number of the successful attempt (10 and above together)",
    ("topic", "attempt"),
)
DEAD_LETTERS = Metric("redelivery_dead_letters", Kind.COUNTER, "Records dead-lettered, by reason", ("topic", "reason"))
DISCARDED = Metric(
    "redelivery_discarded", Kind.COUNTER, "Records dropped instead of dead-lettered, by reason", ("topic", "reason")
)
REDRIVEN = Metric(
    "redelivery_redriven",
    Kind.COUNTER,
    "Records sent again from a dead-letter topic that have ended, by outcome",
    ("topic", "outcome"),
)
REDRIVEN_ARRIVED = Metric(
    "redelivery_redriven_arrived",
    Kind.COUNTER,
    "Records sent again from a dead-letter topic whose first delivery since is over",
    ("topic",),
)
DELIVERY_LATENESS = Metric(
    "redelivery_delivery_lateness_seconds",
    Kind.HISTOGRAM,
    "Time from a record's due time to its redelivery to the handler",
    buckets=_LATENESS_S,
)
RELEASE_LATENESS = Metric(
    "redelivery_release_lateness_seconds",
    Kind.HISTOGRAM,
    "Time from a record's due time to the commit of its release",
    buckets=_LATENESS_S,
)
EARLY = Metric("redelivery_early", Kind.COUNTER, "Redeliveries made before their due time; must stay 0", ("where",))
HANDLER_TIME = Metric("redelivery_handler_seconds", Kind.HISTOGRAM, "Duration of a handler call", buckets=_HANDLER_S)
COMMIT_TIME = Metric(
    "redelivery_commit_seconds",
    Kind.HISTOGRAM,
    "Duration of one write: the produced records and the committed offsets",
    buckets=_WRITE_S,
)
UNDONE = Metric("redelivery_commits_undone", Kind.COUNTER, "Writes that were aborted and repeated")
WRITES_FAILING = Metric(
    "redelivery_writes_failing_seconds",
    Kind.GAUGE,
    "How long all writes have been aborted; 0 if the last one was committed, or if none was made recently",
)
FENCED = Metric("redelivery_fenced", Kind.COUNTER, "Producers fenced by another process with the same transactional id")
MOVED = Metric("redelivery_tier_moves", Kind.COUNTER, "Records moved to a shorter tier for the rest of their delay")
CLOCK_FAULTS = Metric("redelivery_clock_faults", Kind.COUNTER, "Records with an implausible due time")
PENDING = Metric("redelivery_pending", Kind.GAUGE, "Records waiting in a tier", ("tier",))
OLDEST = Metric(
    "redelivery_pending_oldest_timestamp_seconds",
    Kind.GAUGE,
    "Time since which the oldest record has been waiting in a tier",
    ("tier",),
)
TIER_DELAY = Metric(
    "redelivery_tier_delay_seconds", Kind.GAUGE, "The longest time that a record waits in a tier", ("tier",)
)
DEAD_LETTER_DEPTH = Metric(
    "redelivery_dead_letter_depth",
    Kind.GAUGE,
    "Dead letters stored that have not expired, by source topic and reason",
    ("topic", "reason"),
)
DEAD_LETTER_EXPIRED = Metric(
    "redelivery_dead_letter_expired",
    Kind.GAUGE,
    "Dead letters stored although they have expired, by source topic and reason",
    ("topic", "reason"),
)
DEAD_LETTER_OLDEST = Metric(
    "redelivery_dead_letter_oldest_timestamp_seconds",
    Kind.GAUGE,
    "Time since which the oldest dead letter that has not expired has been stored",
    ("topic", "reason"),
)
DEAD_LETTER_RETENTION = Metric(
    "redelivery_dead_letter_retention_seconds",
    Kind.GAUGE,
    "Retention time of the dead-letter topic; absent = unlimited",
    ("dead_letter_topic",),
)
DEAD_LETTER_DELETION = Metric(
    "redelivery_dead_letter_deletion_timestamp_seconds",
    Kind.GAUGE,
    "Earliest time at which retention may delete a dead letter that has not expired; absent = never",
    ("dead_letter_topic",),
)
DEAD_LETTER_UNREAD = Metric(
    "redelivery_dead_letter_unread",
    Kind.GAUGE,
    "Dead letters not counted yet; the other dead-letter metrics are too low by this number",
    ("dead_letter_topic",),
)
REMOVED = Metric("redelivery_expired_removed", Kind.COUNTER, "Expired dead letters deleted", ("dead_letter_topic",))
EXPIRED_MOVED = Metric(
    "redelivery_expired_moved", Kind.COUNTER, "Expired dead letters moved to their expiry topic", ("dead_letter_topic",)
)
SWEEP_REFUSED = Metric(
    "redelivery_sweep_refused",
    Kind.COUNTER,
    "Attempts to move or delete expired dead letters that Kafka refused",
    ("dead_letter_topic",),
)
SWEEP_CLOCK_FAULTS = Metric(
    "redelivery_sweep_clock_faults", Kind.COUNTER, "Times that the clock was ahead, so that nothing was deleted by it"
)
SWEEP_NEXT = Metric(
    "redelivery_sweep_next_timestamp_seconds",
    Kind.GAUGE,
    "Time at which the next dead letter at the head of a partition expires",
    ("dead_letter_topic",),
)
SWEEP_RESTING = Metric(
    "redelivery_sweep_resting_partitions",
    Kind.GAUGE,
    "Partitions whose first record is not deleted at present, by reason",
    ("dead_letter_topic", "reason"),
)
LAG = Metric("redelivery_lag", Kind.GAUGE, "Records not finished, up to the end of the assigned partitions", ("topic",))
ASSIGNED = Metric("redelivery_assigned_partitions", Kind.GAUGE, "Partitions assigned to this process")
IN_FLIGHT = Metric("redelivery_in_flight", Kind.GAUGE, "Records in a handler or buffered for one")
UNACKNOWLEDGED = Metric(
    "redelivery_unacknowledged",
    Kind.GAUGE,
    "Records that handlers left unacknowledged (acknowledgement modes client and individual)",
)
UNOWNED = Metric(
    "redelivery_unowned_partitions",
    Kind.GAUGE,
    "Partitions that are assigned to no member of the group",
    ("topic",),
)
MICRO_BATCH_TIME = Metric(
    "redelivery_micro_batch_seconds",
    Kind.HISTOGRAM,
    "Duration of one micro-batch of a streaming query, planning included",
    buckets=_MICRO_BATCH_S,
)
MICRO_BATCH_RECORDS = Metric(
    "redelivery_micro_batch_records",
    Kind.HISTOGRAM,
    "Records read by one micro-batch; a repeated micro-batch reads them again",
    buckets=_MICRO_BATCH_RECORDS,
)
BEHIND_LATEST = Metric(
    "redelivery_behind_latest_offsets",
    Kind.GAUGE,
    "Offsets that a micro-batch left for later ones, transaction markers included",
    ("topic",),
)
QUERY_PROGRESS = Metric(
    "redelivery_query_progress_timestamp_seconds",
    Kind.GAUGE,
    "Time at which the streaming query last finished a micro-batch or was idle",
)
TABLE_PROGRESS = Metric(
    "redelivery_table_progress_timestamp_seconds",
    Kind.GAUGE,
    "Time at which the query of pipeline.sink last appended to its table or had nothing to append",
)
HALTED_PARTITIONS = Metric(
    "redelivery_halted_partitions",
    Kind.GAUGE,
    "Partitions that are not read, to protect their records, by the topic that refuses a record or an offset, and the "
    "cause",
    ("refused_by", "cause"),
)
PAUSED_PARTITIONS = Metric(
    "redelivery_paused_partitions",
    Kind.GAUGE,
    "Partitions assigned to this process that are not handled because of `redelivery pause`",
    ("topic",),
)
CONTROL_OFFSET = Metric(
    "redelivery_control_offset",
    Kind.GAUGE,
    "Offset of the control topic up to which this process obeys pauses; 0 = there was never one",
)
HALTS = Metric("redelivery_halts", Kind.COUNTER, "Halts to protect records")
REBALANCES = Metric("redelivery_rebalances", Kind.COUNTER, "Rebalances of this process, by event", ("event",))
ALIVE = Metric(
    "redelivery_alive_timestamp_seconds", Kind.GAUGE, "Time at which the polling thread last reported that it is alive"
)
STARTED = Metric("redelivery_started_timestamp_seconds", Kind.GAUGE, "Time at which the process started")
BUILD = Metric("redelivery_build_info", Kind.GAUGE, "Always 1", ("version", "instance"))

CATALOGUE: tuple[Metric, ...] = (
    DELIVERIES,
    REDELIVERIES,
    SUCCESSES,
    DEAD_LETTERS,
    DISCARDED,
    REDRIVEN,
    REDRIVEN_ARRIVED,
    DELIVERY_LATENESS,
    RELEASE_LATENESS,
    EARLY,
    HANDLER_TIME,
    COMMIT_TIME,
    UNDONE,
    WRITES_FAILING,
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
    TABLE_PROGRESS,
    HALTED_PARTITIONS,
    PAUSED_PARTITIONS,
    CONTROL_OFFSET,
    HALTS,
    REBALANCES,
    ALIVE,
    STARTED,
    BUILD,
)
