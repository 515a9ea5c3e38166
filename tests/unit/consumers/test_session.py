"""What a handler says of a record is heard once, by the right record, whenever it is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from consumers.errors import AcknowledgementModeError
from consumers.handler import as_handler
from consumers.record import Context, Record
from consumers.session import Delivered, Said, Sessions
from consumers.session_processor import SessionProcessor
from consumers.unit import Unit
from tests.unit.consumers.records import NOW, record, source, unit
from topology.decision import FailureKind


class Place:
    """Sessions, and a processor that delivers into them."""

    def __init__(self, handler: Callable[..., Any], *, individual: bool = False) -> None:
        self.woken = 0
        self.sessions = Sessions(individual=individual, wake=self._wake)
        self.processor = SessionProcessor(self.sessions, as_handler(handler), {}, lambda: NOW, None)

    def _wake(self) -> None:
        self.woken += 1

    def deliver(self, *offsets: int, partition: int = 0) -> Unit:
        """Hand these over, one after the other."""
        given = unit(source(partition=partition, next_offset=offsets[0]), [record(n) for n in offsets])
        self.processor.run(given)
        return given

    def heard(self) -> list[tuple[int, Said | None]]:
        """What was said since, by offset."""
        return [(each.message.offset(), each.said) for each in self.sessions.heard()]


def left(given: Unit) -> list[int]:
    """The indexes that were left unacknowledged."""
    return [index for index, _ in given.unacknowledged]


def leave(_: Record) -> None:
    """Return without a word."""


def test_what_is_acknowledged_in_its_own_call_is_a_plain_success() -> None:
    """It goes the way of all other modes."""
    place = Place(lambda each: each.acknowledge(), individual=True)
    given = place.deliver(0, 1)
    assert (given.position, given.failures, left(given), place.heard()) == (2, [], [], [])


def test_client_acknowledges_all_that_the_session_was_given() -> None:
    """Also by the first record of it, as in JMS; what comes afterwards is not meant."""
    kept: list[Record] = []
    place = Place(kept.append)
    given = place.deliver(0, 1, 2)
    assert left(given) == [0, 1, 2]
    kept[0].acknowledge()
    assert place.heard() == [(n, Said.ACKNOWLEDGED) for n in (0, 1, 2)]
    assert place.woken == 1
    place.deliver(3)
    kept[1].acknowledge()
    assert place.heard() == [(3, Said.ACKNOWLEDGED)]


def test_individual_acknowledges_one() -> None:
    """Once, however often it is said."""
    kept: list[Record] = []
    place = Place(kept.append, individual=True)
    place.deliver(0, 1, 2)
    kept[1].acknowledge()
    kept[1].acknowledge()
    assert place.heard() == [(1, Said.ACKNOWLEDGED)]


def test_recover_takes_the_record_in_the_handler_and_those_before() -> None:
    """The former fails as any other, the latter are told; nobody can acknowledge them any more."""

    def handle(each: Record, context: Context) -> None:
        if each.offset == 2:
            context.recover()
            context.acknowledge()

    place = Place(handle, individual=True)
    given = place.deliver(0, 1, 2)
    assert place.heard() == [(0, Said.RECOVERED), (1, Said.RECOVERED)]
    [(index, failure)] = given.failures
    assert (index, failure.kind, left(given)) == (2, FailureKind.REDELIVER, [0, 1])


def test_what_is_acknowledged_is_done_though_the_handler_raises() -> None:
    """As in JMS, where the acknowledgement has left; without it the record fails and is closed."""

    def handle(each: Record) -> None:
        if each.offset == 0:
            each.acknowledge()
        raise ValueError("no")

    place = Place(handle, individual=True)
    given = place.deliver(0, 1)
    assert [index for index, _ in given.failures] == [1]
    assert not given.unacknowledged
    assert place.heard() == []


def test_running_out_of_memory_halts_whatever_was_acknowledged() -> None:
    """The process is not fit to go on."""

    def handle(each: Record) -> None:
        each.acknowledge()
        raise MemoryError

    [(_, failure)] = Place(handle).deliver(0).failures
    assert failure.kind is FailureKind.CRITICAL


def test_each_thread_is_a_session() -> None:
    """Acknowledging in one says nothing of what another was given."""
    kept: list[Record] = []
    place = Place(kept.append)
    for partition in (0, 1):
        thread = Thread(target=place.deliver, args=(partition,), kwargs={"partition": partition})
        thread.start()
        thread.join()
    kept[1].acknowledge()
    assert place.heard() == [(1, Said.ACKNOWLEDGED)]


def test_calls_beside_each_other_in_an_event_loop_are_sessions_of_their_own() -> None:
    """And those after each other share one."""
    both = asyncio.Event()
    began: list[int] = []

    async def handle(each: Record) -> None:
        began.append(each.offset)
        if len(began) == 2:
            both.set()
        await both.wait()
        if each.offset == 2:
            each.acknowledge()

    place = Place(handle)
    units = [unit(source(partition=n, next_offset=n), [record(n, partition=n)]) for n in (0, 1)]

    async def all_of_them() -> None:
        await asyncio.gather(*map(place.processor.run_async, units))
        last = unit(source(partition=2, next_offset=2), [record(2, partition=2)])
        await place.processor.run_async(last)

    asyncio.run(all_of_them())
    assert len(place.heard()) == 1


def test_a_partition_that_is_gone_is_not_spoken_of() -> None:
    """And a record that is dropped is dropped once."""
    kept: list[Record] = []
    place = Place(kept.append)
    gone, stays = place.deliver(0), place.deliver(5, partition=1)
    place.sessions.forget(gone.lane.assigned)
    [(_, delivered)] = stays.unacknowledged
    assert place.sessions.drop(delivered)
    assert not place.sessions.drop(delivered)
    kept[0].acknowledge()
    assert place.heard() == []


def test_a_session_record_is_the_record() -> None:
    """All that handlers read of one."""
    kept: list[Record] = []
    Place(kept.append).deliver(4)
    assert kept[0].message_id == "orders-0@4"
    assert isinstance(kept[0].delivered, Delivered)  # type: ignore[attr-defined]


def test_other_modes_have_nothing_to_recover() -> None:
    """The message names what to do instead; to acknowledge is no fault there."""
    context = Context(0, [])
    context.acknowledge()
    with pytest.raises(AcknowledgementModeError, match="raise Redeliver"):
        context.recover()
