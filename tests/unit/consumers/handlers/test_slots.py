"""A work item that has left its slot has no start time, however long it waits in the queue."""

import pytest

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.work_item import FinishedItems
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.handlers.slots import open_slots
from tests.unit.consumers.records import NOW, item, record, source

LATER_S = 1000.0


def plain(_: Record) -> None:
    """A handler."""


async def asynchronous(_: Record) -> None:
    """Another."""


@pytest.mark.parametrize("function", [plain, asynchronous])
def test_a_record_that_was_not_started_has_no_deadline(monkeypatch: pytest.MonkeyPatch, function: object) -> None:
    """Its work item came back early, and then a write took so long that it was not looked at."""
    monkeypatch.setattr("kafka_redelivery.consumers.handlers.processor.SLICE_S", 0.0)
    done = FinishedItems()
    handler = as_handler(function)
    slots = open_slots(handler, 1, Processor(handler, {}, lambda: NOW, None), done)
    slots.submit(item(source(), (record(0), record(1))))
    back = done.get(timeout=10)
    slots.close(10)
    handler.loop.close()
    assert back is not None
    assert back.position == 1
    assert back.abandon(monotonic_s() + LATER_S) is None
