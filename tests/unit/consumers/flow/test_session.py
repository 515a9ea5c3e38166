"""A handler's acknowledgement or recovery takes effect once, for the right records, whenever it is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from kafka_redelivery.consumers.errors import AcknowledgementModeError
from kafka_redelivery.consumers.flow.session import DeliveredRecord, Disposition, Sessions
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.handlers.slot_sessions import SlotSessions
from kafka_redelivery.topology.policy.decision import FailureKind
from tests.unit.consumers.records import NOW, item, record, source

pytestmark = pytest.mark.usefixtures("one_slice")


class Fixture:
    """Sessions, and a processor that delivers into them."""

    def __init__(self, handler: Callable[..., Any], *, individual: bool = False) -> None:
        self.woken = 0
        self.sessions = Sessions(individual=individual, wake=self._wake)
        self.processor = Processor(as_handler(handler), {}, lambda: NOW, None, sessions=SlotSessions(self.sessions))

    def _wake(self) -> None:
        self.woken += 1

    def deliver(self, *offsets: int, partition: int = 0) -> WorkItem:
        """Handle records one after the other."""
        given = item(source(partition=partition, next_offset=offsets[0]), [record(n) for n in offsets])
        self.processor.run(given)
        return given

    def dispositions(self) -> list[tuple[int, Disposition | None]]:
        """The dispositions since the last call, by offset."""
        return [(each.message.offset(), each.disposition) for each in self.sessions.take_dispositions()]


def unacknowledged(given: WorkItem) -> list[int]:
    """The indexes of the unacknowledged records."""
    return [index for index, _ in given.unacknowledged]


def return_silently(_: Record) -> None:
    """Return without an acknowledgement."""


def test_a_record_acknowledged_in_its_own_call_is_a_success() -> None:
    """As in all other modes."""
    fixture = Fixture(lambda each: each.acknowledge(), individual=True)
    given = fixture.deliver(0, 1)
    assert (given.position, given.failures, unacknowledged(given), fixture.dispositions()) == (2, [], [], [])


def test_mode_client_acknowledges_all_records_of_the_session() -> None:
    """Any record of it will do, as in JMS. Later records are not included."""
    records: list[Record] = []
    fixture = Fixture(records.append)
    given = fixture.deliver(0, 1, 2)
    assert unacknowledged(given) == [0, 1, 2]
    records[0].acknowledge()
    assert fixture.dispositions() == [(n, Disposition.ACKNOWLEDGED) for n in (0, 1, 2)]
    assert fixture.woken == 1
    fixture.deliver(3)
    records[1].acknowledge()
    assert fixture.dispositions() == [(3, Disposition.ACKNOWLEDGED)]


def test_mode_individual_acknowledges_one_record() -> None:
    """Once, even if the handler repeats it."""
    records: list[Record] = []
    fixture = Fixture(records.append, individual=True)
    fixture.deliver(0, 1, 2)
    records[1].acknowledge()
    records[1].acknowledge()
    assert fixture.dispositions() == [(1, Disposition.ACKNOWLEDGED)]


def test_recover_includes_the_current_record_and_those_before() -> None:
    """The current one fails, the others get a disposition, and none can be acknowledged any more."""

    def handle(each: Record, context: Context) -> None:
        if each.offset == 2:
            context.recover()
            context.acknowledge()

    fixture = Fixture(handle, individual=True)
    given = fixture.deliver(0, 1, 2)
    assert fixture.dispositions() == [(0, Disposition.RECOVERED), (1, Disposition.RECOVERED)]
    [(index, failure)] = given.failures
    assert (index, failure.kind, unacknowledged(given)) == (2, FailureKind.REDELIVER, [0, 1])


def test_an_acknowledged_record_is_done_although_the_handler_raises() -> None:
    """As in JMS. A record that is not acknowledged fails and leaves the session."""

    def handle(each: Record) -> None:
        if each.offset == 0:
            each.acknowledge()
        raise ValueError("no")

    fixture = Fixture(handle, individual=True)
    given = fixture.deliver(0, 1)
    assert [index for index, _ in given.failures] == [1]
    assert not given.unacknowledged
    assert fixture.dispositions() == []


def test_a_memory_error_halts_although_the_record_was_acknowledged() -> None:
    """The process cannot go on."""

    def handle(each: Record) -> None:
        each.acknowledge()
        raise MemoryError

    [(_, failure)] = Fixture(handle).deliver(0).failures
    assert failure.kind is FailureKind.CRITICAL


def test_each_thread_is_a_session() -> None:
    """An acknowledgement in one session does not affect the records of another."""
    records: list[Record] = []
    fixture = Fixture(records.append)
    for partition in (0, 1):
        thread = Thread(target=fixture.deliver, args=(partition,), kwargs={"partition": partition})
        thread.start()
        thread.join()
    records[1].acknowledge()
    assert fixture.dispositions() == [(1, Disposition.ACKNOWLEDGED)]


def test_concurrent_calls_in_an_event_loop_have_separate_sessions() -> None:
    """Calls one after the other share a session."""
    both = asyncio.Event()
    began: list[int] = []

    async def handle(each: Record) -> None:
        began.append(each.offset)
        if len(began) == 2:
            both.set()
        await both.wait()
        if each.offset == 2:
            each.acknowledge()

    fixture = Fixture(handle)
    items = [item(source(partition=n, next_offset=n), [record(n, partition=n)]) for n in (0, 1)]

    async def all_of_them() -> None:
        await asyncio.gather(*map(fixture.processor.run_async, items))
        last = item(source(partition=2, next_offset=2), [record(2, partition=2)])
        await fixture.processor.run_async(last)

    asyncio.run(all_of_them())
    assert len(fixture.dispositions()) == 1


def test_records_of_a_closed_partition_get_no_disposition() -> None:
    """A record is closed once."""
    records: list[Record] = []
    fixture = Fixture(records.append)
    gone, stays = fixture.deliver(0), fixture.deliver(5, partition=1)
    fixture.sessions.close_partition(gone.lane.assigned)
    [(_, delivery)] = stays.unacknowledged
    assert fixture.sessions.close(delivery)
    assert not fixture.sessions.close(delivery)
    records[0].acknowledge()
    assert fixture.dispositions() == []


def test_a_session_record_has_the_attributes_of_a_record() -> None:
    """Among them its message ID."""
    records: list[Record] = []
    Fixture(records.append).deliver(4)
    assert records[0].message_id == "orders-0@4"
    assert isinstance(records[0].delivery, DeliveredRecord)  # type: ignore[attr-defined]


def test_recover_fails_in_other_modes() -> None:
    """The message names the alternative. An acknowledgement does nothing there."""
    context = Context(0, [])
    context.acknowledge()
    with pytest.raises(AcknowledgementModeError, match="raise Redeliver"):
        context.recover()
