"""Splitting: a slow call delays neither earlier outcomes nor, if the order allows it, later records."""

from threading import Event, Thread

import pytest

from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record, Reject
from kafka_redelivery.topology.config.settings import Ordering
from tests.unit.consumers.lane_steps import cheap, keyed, offsets, opened
from tests.unit.consumers.records import NOW

SOON_S = 10.0
EVER = float("inf")


pytestmark = pytest.mark.usefixtures("one_slice")


class Slow:
    """A handler that rejects odd offsets and is slow for one offset."""

    def __init__(self, slow: int) -> None:
        self._slow = slow
        self.began = Event()
        self.end = Event()
        self.handled: list[int] = []

    def __call__(self, record: Record) -> None:
        """Handle a record."""
        self.handled.append(record.offset)
        if record.offset == self._slow:
            self.began.set()
            assert self.end.wait(SOON_S)
        if record.offset % 2:
            raise Reject


def started(handler: Slow, lanes: Lanes) -> tuple[WorkItem, Thread]:
    """Start a work item in a slot, up to the slow call."""
    item = lanes.next_item()
    assert item is not None
    slot = Thread(target=Processor(as_handler(handler), {}, lambda: NOW, None).run, args=(item,))
    slot.start()
    assert handler.began.wait(SOON_S)
    return item, slot


def failed(item: WorkItem) -> list[int]:
    """The offsets that failed."""
    return [item.messages[index].offset() for index, _ in item.failures]


def test_only_records_with_the_same_key_wait_for_a_slow_call() -> None:
    """The other records of the item are handed out again, and each outcome is taken once."""
    lanes = cheap(Ordering.KEY, slots=1)
    keyed(lanes, opened(lanes), "abcdeXaXbc")
    keyed(lanes, opened(lanes, 1), "-" * 10)  # a share for two work items
    handler = Slow(5)
    item, slot = started(handler, lanes)
    assert offsets(item) == list(range(10))

    done = lanes.split(item, EVER)
    assert done is not None
    assert (offsets(done), done.position, failed(done)) == ([0, 1, 2, 3, 4], 5, [1, 3])
    assert lanes.buffered(redelivered=False).records == 15
    assert lanes.split(item, EVER) is None, "an item is split once"
    others = [found for found in iter(lanes.next_item, None) if found.lane is item.lane]
    assert sorted(offset for found in others for offset in offsets(found)) == [6, 8, 9]

    handler.end.set()
    slot.join(SOON_S)
    assert handler.handled == [0, 1, 2, 3, 4, 5]
    left = item.without_taken()
    assert (offsets(left), left.position, failed(left), len(left.seconds)) == ([5], 1, [5], 1)
    lanes.put_back(left)
    assert offsets(lanes.next_item()) == [7], "the record with the same key, now that the slow call has ended"


def test_by_partition_all_other_records_wait_for_a_slow_call() -> None:
    """The order is kept, and earlier outcomes can be written."""
    lanes = cheap(Ordering.PARTITION, slots=1)
    keyed(lanes, opened(lanes), "abcd")
    handler = Slow(1)
    item, slot = started(handler, lanes)
    done = lanes.split(item, EVER)
    assert done is not None
    assert offsets(done) == [0]
    assert lanes.next_item() is None
    handler.end.set()
    slot.join(SOON_S)
    lanes.put_back(item.without_taken())
    assert offsets(lanes.next_item())[0] == 2, "more than one only if the calls before it took no time"


def test_an_item_without_a_slow_call_is_not_split() -> None:
    """Nor an item with one record, nor one that is stopped."""
    lanes = cheap(Ordering.UNORDERED, slots=1)
    keyed(lanes, opened(lanes), "abcd")
    handler = Slow(0)
    item, slot = started(handler, lanes)
    assert lanes.split(item, item.started_s) is None
    item.stop = True
    assert lanes.split(item, EVER) is None
    handler.end.set()
    slot.join(SOON_S)
    assert handler.handled == [0]


def test_only_the_slow_record_is_abandoned_at_the_deadline() -> None:
    """The outcomes taken before are not decided again."""
    lanes = cheap(Ordering.UNORDERED, slots=1)
    keyed(lanes, opened(lanes), "abcdefgh")
    handler = Slow(2)
    item, slot = started(handler, lanes)
    assert lanes.split(item, EVER) is not None
    result = item.abandon(EVER)
    assert result is not None
    assert (offsets(result), result.position, failed(result)) == ([2], 0, [])
    handler.end.set()
    slot.join(SOON_S)
    lanes.put_back(result)
    assert lanes.buffered(redelivered=False).records == 6
