"""A batch that misses the deadline: no record of it has failed, and each is handled again by itself."""

from __future__ import annotations

from datetime import timedelta

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.worker.dispatcher import Dispatcher
from kafka_redelivery.topology.config.settings import BatchSection, Ordering
from kafka_redelivery.topology.policy.decision import FailureKind
from tests.unit.consumers.lane_steps import keyed, offsets, opened
from tests.unit.consumers.records import NOW


class _Slots:
    """Two slots that never return an item."""

    capacity = 2

    def __init__(self) -> None:
        self.given: list[WorkItem] = []

    def submit(self, item: WorkItem) -> None:
        self.given.append(item)

    def close(self, timeout_s: float) -> None:
        """Do nothing."""


def overdue(item: WorkItem) -> None:
    """Let the call of an item have begun long ago."""
    item.started_s = monotonic_s() - 60


def test_the_records_of_an_overdue_batch_are_handled_one_by_one() -> None:
    """Uncounted. The second time the deadline is that of the record, and counts. Each call keeps its slot."""
    filling = BatchFilling(BatchSection(records=3, wait=timedelta(0)))
    slots = _Slots()
    lanes = Lanes(Ordering.PARTITION, 2, filling=filling, clock=lambda: NOW)
    dispatcher = Dispatcher(lanes=lanes, slots=slots, deadline=timedelta(seconds=1))
    keyed(lanes, opened(lanes), "abc")
    dispatcher.hand_out()
    [batch] = slots.given
    assert batch.batch
    overdue(batch)
    [again] = dispatcher.abandon_overdue()
    assert (again.position, again.failures) == (0, [])
    assert not dispatcher.exhausted

    dispatcher.hand_out()
    single = slots.given[1]
    assert (offsets(single), single.batch) == ([0, 1, 2], False)
    single.position = 1
    overdue(single)
    [failed] = dispatcher.abandon_overdue()
    assert failed.position == 2
    assert [(index, failure.kind) for index, failure in failed.failures] == [(1, FailureKind.DEADLINE)]
    assert dispatcher.exhausted

    batch.position = 3  # what it did is void
    assert dispatcher.take_back(batch) is None
    assert not dispatcher.exhausted
    dispatcher.hand_out()
    assert (offsets(slots.given[2]), slots.given[2].batch) == ([2], False)
