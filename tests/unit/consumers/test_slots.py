"""A unit that has left its slot is in nobody's hands, however long it waits to be taken back."""

from queue import SimpleQueue

import pytest

from consumers.clock import monotonic_s
from consumers.handler import as_handler
from consumers.processor import Processor
from consumers.record import Record
from consumers.slots import AsyncSlots, ThreadSlots
from consumers.unit import Unit
from tests.unit.consumers.records import NOW, record, source, unit

LATER_S = 1000.0


def plain(_: Record) -> None:
    """A handler."""


async def asynchronous(_: Record) -> None:
    """Another."""


@pytest.mark.parametrize(("kind", "handler"), [(ThreadSlots, plain), (AsyncSlots, asynchronous)])
def test_a_record_that_was_not_begun_has_no_deadline(
    monkeypatch: pytest.MonkeyPatch, kind: type[ThreadSlots | AsyncSlots], handler: object
) -> None:
    """Its unit came back early, and then a write took so long that it was not looked at."""
    monkeypatch.setattr("consumers.processor.SLICE_S", 0.0)
    done: SimpleQueue[Unit | None] = SimpleQueue()
    slots = kind(1, Processor(as_handler(handler), {}, lambda: NOW, None), done)
    slots.submit(unit(source(), (record(0), record(1))))
    back = done.get(timeout=10)
    slots.close(10)
    assert back is not None
    assert back.position == 1
    assert back.abandon(monotonic_s() + LATER_S) is None
