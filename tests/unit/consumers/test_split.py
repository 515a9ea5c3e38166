"""A slow call keeps nobody waiting: what is done beside it is taken over, what is not begun goes to other slots."""

from threading import Event, Thread

from consumers.handler import as_handler
from consumers.lanes import Lanes
from consumers.processor import Processor
from consumers.record import Record, Reject
from consumers.unit import Unit
from tests.unit.consumers.lining import cheap, keyed, offsets, opened
from tests.unit.consumers.records import NOW
from topology.settings import Ordering

SOON_S = 10.0
EVER = float("inf")


class Slow:
    """A handler that rejects odd offsets, and takes as long as it is told to for one of them."""

    def __init__(self, slow: int) -> None:
        self._slow = slow
        self.began = Event()
        self.end = Event()
        self.handled: list[int] = []

    def __call__(self, record: Record) -> None:
        """Handle."""
        self.handled.append(record.offset)
        if record.offset == self._slow:
            self.began.set()
            assert self.end.wait(SOON_S)
        if record.offset % 2:
            raise Reject


def started(handler: Slow, lanes: Lanes) -> tuple[Unit, Thread]:
    """A unit in a slot, that is at the slow call."""
    unit = lanes.next_unit()
    assert unit is not None
    slot = Thread(target=Processor(as_handler(handler), {}, lambda: NOW, None).run, args=(unit,))
    slot.start()
    assert handler.began.wait(SOON_S)
    return unit, slot


def failed(unit: Unit) -> list[int]:
    """The offsets that failed."""
    return [unit.messages[index].offset() for index, _ in unit.failures]


def test_only_the_record_and_its_key_wait_for_a_slow_call() -> None:
    """The others of its unit are handed out again, all but those of the same key; every outcome comes once."""
    lanes = cheap(Ordering.KEY, slots=1)
    keyed(lanes, opened(lanes), "abcdeXaXbc")
    keyed(lanes, opened(lanes, 1), "-" * 10)  # a share for two units
    handler = Slow(5)
    unit, slot = started(handler, lanes)
    assert offsets(unit) == list(range(10))

    done = lanes.split(unit, EVER)
    assert done is not None
    assert (offsets(done), done.position, failed(done)) == ([0, 1, 2, 3, 4], 5, [1, 3])
    assert lanes.held(redelivered=False).records == 15
    assert lanes.split(unit, EVER) is None, "once is enough"
    others = [found for found in iter(lanes.next_unit, None) if found.lane is unit.lane]
    assert sorted(offset for found in others for offset in offsets(found)) == [6, 8, 9]

    handler.end.set()
    slot.join(SOON_S)
    assert handler.handled == [0, 1, 2, 3, 4, 5]
    left = unit.without_taken()
    assert (offsets(left), left.position, failed(left), len(left.seconds)) == ([5], 1, [5], 1)
    lanes.put_back(left)
    assert offsets(lanes.next_unit()) == [7], "its key, now that it is done"


def test_by_partition_the_rest_waits_for_the_slow_call() -> None:
    """The order holds; what is done before can be written."""
    lanes = cheap(Ordering.PARTITION, slots=1)
    keyed(lanes, opened(lanes), "abcd")
    handler = Slow(1)
    unit, slot = started(handler, lanes)
    done = lanes.split(unit, EVER)
    assert done is not None
    assert offsets(done) == [0]
    assert lanes.next_unit() is None
    handler.end.set()
    slot.join(SOON_S)
    lanes.put_back(unit.without_taken())
    assert offsets(lanes.next_unit()) == [2, 3]


def test_a_call_that_is_not_slow_is_left_alone() -> None:
    """So is a unit of one record, and one that is being finished anyway."""
    lanes = cheap(Ordering.UNORDERED, slots=1)
    keyed(lanes, opened(lanes), "abcd")
    handler = Slow(0)
    unit, slot = started(handler, lanes)
    assert lanes.split(unit, unit.started_s) is None
    unit.stop = True
    assert lanes.split(unit, EVER) is None
    handler.end.set()
    slot.join(SOON_S)
    assert handler.handled == [0]


def test_a_slow_call_past_its_deadline_is_given_up_alone() -> None:
    """What was taken over before is not decided about again."""
    lanes = cheap(Ordering.UNORDERED, slots=1)
    keyed(lanes, opened(lanes), "abcdefgh")
    handler = Slow(2)
    unit, slot = started(handler, lanes)
    assert lanes.split(unit, EVER) is not None
    late = unit.abandon(EVER)
    assert late is not None
    assert (offsets(late), late.position, failed(late)) == ([2], 0, [])
    handler.end.set()
    slot.join(SOON_S)
    lanes.put_back(late)
    assert lanes.held(redelivered=False).records == 6
