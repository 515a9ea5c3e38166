"""The list of all metrics, shared by code, documentation, dashboards and alerts.

Names and labels are a public interface. Label values are bounded: topics, tiers, outcomes, reasons and roles, never
keys. Every metric also has the labels of :data:`COMMON`, so that alert rules and panels need no join to find the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

COMMON = ("group", "role")
"""Labels of every metric: the consumer group, and the role ``worker``, ``scheduler`` or ``stream``."""


class MetricKind(StrEnum):
    """Prometheus's metric types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. The ``name`` of a counter does not include the suffix ``_total``, which the exposition adds."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    """The labels besides :data:`COMMON`."""

    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets, ascending, in its unit; the exposition adds +Inf."""

    over: str = "sum"
    """The function of PromQL that combines the values of all processes of a group; empty if none makes sense."""


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric(name, MetricKind.COUNTER, text, labels)


def _gauge(name: str, text: str, labels: tuple[str, ...] = (), *, over: str = "sum") -> Metric:
    return Metric(name, MetricKind.GAUGE, text, labels, over=over)


def _histogram(name: str, text: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, text, buckets=buckets)


_LATENESS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_OUTAGE_LATENESS_S = (1.0, 10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0)
_HANDLER_S = (0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
_MICRO_BATCH_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_MICRO_BATCH_RECORDS = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
_WRITE_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)

DELIVERIES = _counter(
    "redelivery_deliveries",
    "Deliveries that ended, by outcome and ActiveMQ acknowledgement type",
    ("topic", "outcome", "ack_type"),
)
REDELIVERIES = _counter(
    "redelivery_redeliveries",
    "Redeliveries scheduled, by the number of the failed attempt (10 and above together)",
    ("topic", "attempt"),
)
SUCCESSES = _counter(
    "redelivery_successes",
    "Records acknowledged, by the number of the successful attempt (10 and above together)",
    ("topic", "attempt"),
)
DEAD_LETTERS = _counter("redelivery_dead_letters", "Records dead-lettered, by reason", ("topic", "reason"))
DISCARDED = _counter("redelivery_discarded", "Records dropped instead of dead-lettered, by reason", ("topic", "reason"))
REDRIVEN = _counter(
    "redelivery_redriven",
    "Records sent again from a dead-letter topic that have ended, by outcome",
    ("topic", "outcome"),
)
REDRIVEN_ARRIVED = _counter(
    "redelivery_redriven_arrived",
    "Records sent again from a dead-letter topic whose first delivery since is over",
    ("topic",),
)
DELIVERY_LATENESS = _histogram(
    "redelivery_delivery_lateness_seconds",
    "Time from a record's due time to its redelivery to the handler",
    _LATENESS_S,
)
RELEASE_LATENESS = _histogram(
    "redelivery_release_lateness_seconds", "Time from a record's due time to the commit of its release", _LATENESS_S
)
OUTAGE_LATENESS = _histogram(
    "redelivery_outage_lateness_seconds",
    "As redelivery_delivery_lateness_seconds, of redeliveries that an outage of a dependency has delayed; they count "
    "here alone",
    _OUTAGE_LATENESS_S,
)
EARLY = _counter("redelivery_early", "Redeliveries made before their due time; must stay 0", ("where",))
HANDLER_TIME = _histogram("redelivery_handler_seconds", "Duration of a handler call", _HANDLER_S)
COMMIT_TIME = _histogram(
    "redelivery_commit_seconds", "Duration of one write: the produced records and the committed offsets", _WRITE_S
)
UNDONE = _counter("redelivery_commits_undone", "Writes that were aborted and repeated")
WRITES_FAILING = _gauge(
    "redelivery_writes_failing_seconds",
    "How long all writes have been aborted; 0 if the last one was committed, or if none was made recently",
    over="max",
)
FENCED = _counter("redelivery_fenced", "Producers fenced by another process with the same transactional id")
MOVED = _counter("redelivery_tier_moves", "Records moved to a shorter tier for the rest of their delay")
CLOCK_FAULTS = _counter("redelivery_clock_faults", "Records with an implausible due time")
PENDING = _gauge("redelivery_pending", "Records waiting in a tier", ("tier",))
OLDEST = _gauge(
    "redelivery_pending_oldest_timestamp_seconds",
    "Time since which the oldest record has been waiting in a tier",
    ("tier",),
    over="min",
)
TIER_DELAY = _gauge(
    "redelivery_tier_delay_seconds", "The longest time that a record waits in a tier", ("tier",), over="max"
)
DEAD_LETTER_DEPTH = _gauge(
    "redelivery_dead_letter_depth",
    "Dead letters stored that have not expired, by source topic and reason",
    ("topic", "reason"),
)
DEAD_LETTER_EXPIRED = _gauge(
    "redelivery_dead_letter_expired",
    "Dead letters stored although they have expired, by source topic and reason",
    ("topic", "reason"),
)
DEAD_LETTER_OLDEST = _gauge(
    "redelivery_dead_letter_oldest_timestamp_seconds",
    "Time since which the oldest dead letter that has not expired has been stored",
    ("topic", "reason"),
    over="min",
)
DEAD_LETTER_RETENTION = _gauge(
    "redelivery_dead_letter_retention_seconds",
    "Retention time of the dead-letter topic; absent = unlimited",
    ("dead_letter_topic",),
    over="max",
)
DEAD_LETTER_DELETION = _gauge(
    "redelivery_dead_letter_deletion_timestamp_seconds",
    "Earliest time at which retention may delete a dead letter that has not expired; absent = never",
    ("dead_letter_topic",),
    over="min",
)
DEAD_LETTER_UNREAD = _gauge(
    "redelivery_dead_letter_unread",
    "Dead letters not counted yet; the other dead-letter metrics are too low by this number",
    ("dead_letter_topic",),
)
REMOVED = _counter("redelivery_expired_removed", "Expired dead letters deleted", ("dead_letter_topic",))
EXPIRED_MOVED = _counter(
    "redelivery_expired_moved", "Expired dead letters moved to their expiry topic", ("dead_letter_topic",)
)
SWEEP_REFUSED = _counter(
    "redelivery_sweep_refused",
    "Attempts to read, move or delete expired dead letters that Kafka refused",
    ("dead_letter_topic",),
)
SWEEP_CLOCK_FAULTS = _counter(
    "redelivery_sweep_clock_faults", "Times that the clock was ahead, so that nothing was deleted by it"
)
SWEEP_NEXT = _gauge(
    "redelivery_sweep_next_timestamp_seconds",
    "Time at which the next dead letter at the head of a partition expires",
    ("dead_letter_topic",),
    over="min",
)
SWEEP_RESTING = _gauge(
    "redelivery_sweep_resting_partitions",
    "Partitions whose first record is not deleted at present, by reason",
    ("dead_letter_topic", "reason"),
)
LAG = _gauge("redelivery_lag", "Records not finished, up to the end of the assigned partitions", ("topic",))
ASSIGNED = _gauge("redelivery_assigned_partitions", "Partitions assigned to this process")
UNOWNED = _gauge(
    "redelivery_unowned_partitions", "Partitions that are assigned to no member of the group", ("topic",), over="max"
)
IN_FLIGHT = _gauge("redelivery_in_flight", "Records in a handler or buffered for one")
UNACKNOWLEDGED = _gauge(
    "redelivery_unacknowledged",
    "Records that handlers left unacknowledged (acknowledgement modes client and individual)",
)
MICRO_BATCH_TIME = _histogram(
    "redelivery_micro_batch_seconds",
    "Duration of one micro-batch of a streaming query, planning included",
    _MICRO_BATCH_S,
)
MICRO_BATCH_RECORDS = _histogram(
    "redelivery_micro_batch_records",
    "Records read by one micro-batch; a repeated micro-batch reads them again",
    _MICRO_BATCH_RECORDS,
)
BEHIND_LATEST = _gauge(
    "redelivery_behind_latest_offsets",
    "Offsets that a micro-batch left for later ones, transaction markers included",
    ("topic",),
)
QUERY_PROGRESS = _gauge(
    "redelivery_query_progress_timestamp_seconds",
    "Time at which the streaming query last finished a micro-batch or was idle",
    over="max",
)
TABLE_PROGRESS = _gauge(
    "redelivery_table_progress_timestamp_seconds",
    "Time at which the query of pipeline.sink last appended to its table or had nothing to append",
    over="max",
)
HALTED_PARTITIONS = _gauge(
    "redelivery_halted_partitions",
    "Partitions that are not read, to protect their records, by the topic that refuses a record or an offset, and the "
    "cause",
    ("refused_by", "cause"),
)
PAUSED_PARTITIONS = _gauge(
    "redelivery_paused_partitions",
    "Partitions assigned to this process that are not handled because of `redelivery pause`",
    ("topic",),
)
OUTAGE = _gauge(
    "redelivery_outage",
    "Whether this process finds a dependency of its handlers away (1), so that what needs it waits, or not (0)",
    ("dependency",),
    over="max",
)
OUTAGE_PARTITIONS = _gauge(
    "redelivery_outage_partitions",
    "Partitions assigned to this process that wait because a dependency of their handler is away",
    ("topic",),
)
CONTROL_OFFSET = _gauge(
    "redelivery_control_offset",
    "Offset of the control topic up to which this process obeys pauses; 0 = there was never one",
    over="",
)
HALTS = _counter("redelivery_halts", "Halts to protect records")
REBALANCES = _counter("redelivery_rebalances", "Rebalances of this process, by event", ("event",))
ALIVE = _gauge(
    "redelivery_alive_timestamp_seconds", "Time at which the polling thread last reported that it is alive", over=""
)
STARTED = _gauge("redelivery_started_timestamp_seconds", "Time at which the process started", over="")
SCHEDULER_NEEDED = _gauge(
    "redelivery_scheduler_needed",
    "1 if failed records wait in retry topics, which only a scheduler releases; 0 if the policies have no such delay",
    over="max",
)
BUILD = _gauge("redelivery_build_info", "Always 1", ("version", "instance"), over="")

CATALOGUE = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
