"""A refused record is dead-lettered when it is read again. A missing right halts its partition instead."""

from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.scheduler.assigned_tiers import AssignedTiers
from kafka_redelivery.consumers.scheduler.release import Release
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import Partition, ProducerRecord
from tests.unit.consumers.doubles import RecordingObserver, StoredOffsets, no_stops

QUICK, SLOW = Partition("billing.retry.1s", 0), Partition("billing.retry.2s", 0)
POINTS = {QUICK: Checkpoint(2, ""), SLOW: Checkpoint(6, "")}


class Parts:
    """The refusals of a write of three records, two of them of ``QUICK``."""

    def __init__(self) -> None:
        self.observer = RecordingObserver()
        self.stops = no_stops(self.observer)
        reader = StoredOffsets()
        self.assigned = AssignedTiers(reader, FirstOffsets(reader), self.stops, "billing.retry.mixed")
        for each in (QUICK, SLOW):
            self.assigned.opened[each] = TierPartition(each.topic, 1000, Progress(0), ordered=True)

    def refusals(self, partition: Partition) -> dict[int, str]:
        """What is known of a partition."""
        return self.assigned.opened[partition].refusals

    def add(self, *, others_written: bool = True, **causes: RefusalCause) -> dict[Partition, Checkpoint]:
        """Refuse the records ``first``, ``second`` and ``slow``."""
        names = ("first", "second", "slow")
        release = Release(
            produced=[ProducerRecord("billing.ready.orders", 0, None, b"") for _ in names],
            origins=[(QUICK, 0), (QUICK, 1), (SLOW, 5)],
            checkpoints=POINTS,
        )
        refused = [RefusedRecord(names.index(name), f"why {name}", cause) for name, cause in causes.items()]
        return self.assigned.refuse(release, WriteRefusedError(refused, others_written=others_written))


def test_a_refused_record_is_kept_until_it_is_finished() -> None:
    """With the reason, and nothing halts."""
    parts = Parts()
    assert parts.add(first=RefusalCause.TOO_LARGE) == {}
    assert parts.refusals(QUICK) == {0: "why first"}
    assert parts.refusals(SLOW) == {}
    assert parts.stops.unread == set()
    parts.assigned.confirm({QUICK: Checkpoint(1, "")})
    assert parts.refusals(QUICK) == {}


def test_a_refused_dead_letter_halts_its_partition() -> None:
    """The second refusal of a record is that of its dead letter."""
    parts = Parts()
    parts.add(slow=RefusalCause.TOO_LARGE)
    parts.add(slow=RefusalCause.TOO_LARGE)
    assert parts.stops.unread == {SLOW}


def test_a_missing_right_halts_once_and_is_no_refusal_of_a_record() -> None:
    """The offsets of the other partitions can be committed."""
    parts = Parts()
    assert parts.add(first=RefusalCause.FORBIDDEN, second=RefusalCause.FORBIDDEN) == {SLOW: POINTS[SLOW]}
    assert parts.stops.unread == {QUICK}
    assert parts.refusals(QUICK) == {}
    [cause] = parts.observer.halt_causes
    assert "grant the right Write on billing.ready.orders" in cause


def test_nothing_is_committed_if_the_other_records_are_not_written() -> None:
    """They were in the transaction that was aborted."""
    parts = Parts()
    assert parts.add(others_written=False, first=RefusalCause.FORBIDDEN) == {}
    assert parts.stops.unread == {QUICK}


def test_nothing_is_committed_if_a_record_is_refused_as_well() -> None:
    """Not all other records are written then."""
    parts = Parts()
    assert parts.add(first=RefusalCause.FORBIDDEN, slow=RefusalCause.TOO_LARGE) == {}
    assert parts.stops.unread == {QUICK}
    assert parts.refusals(SLOW) == {5: "why slow"}


def test_a_partition_that_was_given_up_meanwhile_neither_halts_nor_is_committed() -> None:
    """Its next owner releases the record."""
    parts = Parts()
    parts.assigned.give_up([QUICK])
    assert parts.add(first=RefusalCause.FORBIDDEN) == {SLOW: POINTS[SLOW]}
    assert parts.stops.unread == frozenset()
    assert parts.observer.halt_causes == []
