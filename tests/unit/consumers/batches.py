"""Work items as they come back from a slot, and the dependencies of their batches. Not under test here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.topics.tiers import TierSet
from kafka_redelivery.topology.wire.headers import read_lineage
from kafka_redelivery.transport.protocols import Message, ProducerRecord
from tests.unit.consumers.records import NOW, item

TIER = "billing.retry.1s"
READY = "billing.ready.orders"
DEAD = "DLQ.orders"
JOURNAL = "billing.journal"
COUNTS = {
    TIER: 4,
    "billing.retry.250ms": 4,
    "billing.retry.2s": 4,
    "billing.retry.mixed": 2,
    READY: 8,
    DEAD: 3,
    JOURNAL: 4,
}
"""Number of partitions of each topic; all differ from that of the source."""

RAISED = Failure(FailureKind.RAISED, "ValueError", "no")
REJECTED = Failure(FailureKind.REJECTED, "Reject", "never")
POISON = Failure(FailureKind.UNDECODABLE, "DecodeError", "json not_json: Expecting value")
EXPIRED = Failure(FailureKind.EXPIRED, "Expired", "")
OUT_OF_MEMORY = Failure(FailureKind.CRITICAL, "MemoryError", "all of it")


def shared(
    *, journal: bool = False, tiers: Sequence[int] = (250, 1000, 2000), mixed: bool = False
) -> BatchDependencies:
    """Dependencies of the group ``billing``, whose clock stands still and whose jitter is always 0.5."""
    return BatchDependencies(
        group="billing",
        retry_topics=RetryTopics(Naming(group="billing"), TierSet(tuple(tiers), mixed=mixed), COUNTS),
        clock=lambda: NOW,
        jitter=lambda: repeat(0.5),
        write_failures={},
        journal=JOURNAL if journal else None,
    )


def handled(
    assigned: AssignedPartition,
    *messages: Message,
    failures: Mapping[int, Failure] | None = None,
    outputs: Mapping[int, Sequence[ProducerRecord]] | None = None,
    late: Mapping[int, int] | None = None,
    position: int | None = None,
) -> WorkItem:
    """A work item back from its slot. By index: its failures, its outputs, and the lateness in milliseconds."""
    given = item(assigned, messages)
    given.position = len(messages) if position is None else position
    given.failures = sorted((failures or {}).items())
    given.outputs = [(index, list(records)) for index, records in sorted((outputs or {}).items())]
    given.lateness = sorted((late or {}).items())
    given.seconds = [0.25] * given.position
    if assigned.redelivered:
        given.lineages = [read_lineage(message.headers() or ()) for message in messages]
    return given


def output(value: bytes) -> ProducerRecord:
    """A record that a handler emitted."""
    return ProducerRecord("totals", None, None, value, [])


def batch_of(*items: WorkItem, common: BatchDependencies | None = None) -> Batch:
    """A closed batch of these work items."""
    batch = Batch(shared() if common is None else common)
    for done in items:
        batch.add(done)
    batch.close()
    return batch
