"""Units as they come back from a slot, and what their batches have in common; none of it is under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from consumers.batch import Batch, Shared
from consumers.routes import Waiting
from consumers.unit import Assigned, Unit
from tests.unit.consumers.records import NOW, unit
from topology.decision import Failure, FailureKind
from topology.headers import read_lineage
from topology.naming import Naming
from topology.tiers import TierSet
from transport.protocols import Copy, Message

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
"""How many partitions each topic has: all different from the source's."""

RAISED = Failure(FailureKind.RAISED, "ValueError", "no")
REJECTED = Failure(FailureKind.REJECTED, "Reject", "never")
POISON = Failure(FailureKind.UNDECODABLE, "DecodeError", "json not_json: Expecting value")
EXPIRED = Failure(FailureKind.EXPIRED, "Expired", "")
OUT_OF_MEMORY = Failure(FailureKind.CRITICAL, "MemoryError", "all of it")


def shared(*, journal: bool = False, tiers: Sequence[int] = (250, 1000, 2000), mixed: bool = False) -> Shared:
    """The group ``billing``, whose clock stands still and whose dice always fall on 0.5."""
    return Shared(
        group="billing",
        waiting=Waiting(Naming(group="billing"), TierSet(tuple(tiers), mixed=mixed), COUNTS),
        clock=lambda: NOW,
        jitter=lambda: repeat(0.5),
        verdicts={},
        journal=JOURNAL if journal else None,
    )


def handled(
    assigned: Assigned,
    *messages: Message,
    failures: Mapping[int, Failure] | None = None,
    outputs: Mapping[int, Sequence[Copy]] | None = None,
    late: Mapping[int, int] | None = None,
    position: int | None = None,
) -> Unit:
    """A unit back from its slot: by index what failed, what was emitted, and how late it was."""
    given = unit(assigned, messages)
    given.position = len(messages) if position is None else position
    given.failures = sorted((failures or {}).items())
    given.outputs = [(index, list(copies)) for index, copies in sorted((outputs or {}).items())]
    given.lateness = sorted((late or {}).items())
    given.seconds = [0.25] * given.position
    if assigned.redelivered:
        given.lineages = [read_lineage(message.headers() or ()) for message in messages]
    return given


def output(value: bytes) -> Copy:
    """Something a handler emitted."""
    return Copy("totals", None, None, value, [])


def batch_of(*units: Unit, common: Shared | None = None) -> Batch:
    """A batch of these, closed."""
    batch = Batch(shared() if common is None else common)
    for done in units:
        batch.add(done)
    batch.close()
    return batch
