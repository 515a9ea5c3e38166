"""The parent of a handler's process sees which records are in slots, and runs of a partition keep their order."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.child import NO_CALL, SHARED_BYTES, Position, SharedPosition
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.pipeline.handler.items import PublishedItem, Runs
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.unit.consumers.conftest import one_slice  # noqa: F401 - a fixture
from tests.unit.consumers.records import NOW, item, record, source

pytestmark = pytest.mark.usefixtures("one_slice")

_GRACE_S = 0.5


class _Codec:
    """Notes what the parent sees while an output is encoded."""

    def __init__(self, place: SharedPosition) -> None:
        self.place = place
        self.seen: list[Position | None] = []

    def encode(self, value: object) -> object:
        """Return the value."""
        self.seen.append(self.place.read())
        return value


def test_a_record_is_published_while_it_is_handled() -> None:
    """With the start of the call, and without one while its output is encoded."""
    place = SharedPosition(bytearray(SHARED_BYTES))
    codec = _Codec(place)
    seen: list[Position | None] = []

    def handle(_: Record, context: Context) -> None:
        seen.append(place.read())
        context.send("out", b"")

    published = _published(item(source(), [record(5), record(9)]), [5, 9], place)
    outputs: Any = {"out": (codec, codec)}
    begun_s = monotonic_s()
    Processor(as_handler(handle), outputs, lambda: NOW, None).run(published)
    assert place.read() is None
    published.leave_slot()

    assert [(each.number, each.first, each.records) for each in seen if each] == [(3, 5, 1), (3, 9, 1)]
    assert all(each and begun_s + _GRACE_S <= each.since_s < NO_CALL for each in seen)
    assert {each and (each.first, each.since_s) for each in codec.seen} == {(5, NO_CALL), (9, NO_CALL)}
    assert published.offsets() == [5, 9]
    assert [records for _, records in published.outputs] == [[ProducerRecord("out", None, None, b"", [])]] * 2


def test_no_record_is_published_when_an_item_has_left_its_slot() -> None:
    """A slot returns it in the middle when its time slice is over."""
    place = SharedPosition(bytearray(SHARED_BYTES))
    published = _published(item(source(), [record(5), record(9)]), [5, 9], place)

    def handle(_: Record) -> None:
        published.stop = True

    Processor(as_handler(handle), {}, lambda: NOW, None).run(published)
    published.leave_slot()

    assert (place.read(), published.next_offset()) == (None, 9)


def test_runs_of_a_partition_are_handled_one_after_the_other() -> None:
    """What is left of one comes first; meanwhile another partition has the slot."""
    runs, one, two = Runs(), source(), source(partition=1)
    for assigned, offsets in ((one, (1, 2, 3)), (one, (4,)), (two, (1,))):
        if assigned not in runs._lanes:
            runs.open(assigned)
        runs.add(assigned, [record(offset) for offset in offsets])

    first = _next(runs)
    second = _next(runs)
    assert (first.lane.assigned, second.lane.assigned) == (one, two)
    assert runs.next_item() is None
    second.position = 1
    runs.put_back(second)
    first.position = 1
    runs.put_back(first)

    runs.hold(frozenset([one.partition]))
    assert runs.next_item() is None
    runs.hold(frozenset())
    assert [[each.offset() for each in found.messages] for found in _rest(runs)] == [[2, 3], [4]]


def _published(given: WorkItem, offsets: list[int], place: SharedPosition) -> PublishedItem:
    return PublishedItem(given, offsets, 3, place, grace_s=_GRACE_S, singly=False)


def _next(runs: Runs) -> WorkItem:
    return cast("WorkItem", runs.next_item())


def _rest(runs: Runs) -> Iterator[WorkItem]:
    while (found := runs.next_item()) is not None:
        yield found
        found.position = len(found.messages)
        runs.put_back(found)
