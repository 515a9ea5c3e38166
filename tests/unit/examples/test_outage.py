"""The book of flights of the demo: how the handler asks it, and what its outage costs."""

from __future__ import annotations

from contextlib import closing

import pytest

from examples.flights.handler import BookAwayError, BookOfFlights
from examples.flights.outage import Book, Outage, full_speed_s, most_calls
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE, failure_cause
from tests.unit.consumers.records import record
from tests.unit.examples.flights import flight


def test_the_handler_asks_over_a_connection_that_stays_open() -> None:
    """While it is away that is no failure of the flight, and afterwards it answers again."""
    with Book() as book, closing(BookOfFlights(book.variables["FLIGHTS_BOOK"])) as asked:
        asked.look_up(flight(7)._asdict())
        book.away = True
        for _ in range(2):
            with pytest.raises(BookAwayError, match="answers 503"):
                asked.look_up(flight(7)._asdict())
        book.away = False
        asked.look_up(flight(7)._asdict())
    assert (len(book.calls), len(book.refused)) == (2, 2)


def test_a_book_that_cannot_be_reached_is_away() -> None:
    """A refused connection is no failure of the flight either."""
    with Book() as book:
        address = book.variables["FLIGHTS_BOOK"]
    with pytest.raises(BookAwayError, match="ConnectionRefusedError"):
        BookOfFlights(address).look_up(flight(7)._asdict())


def test_an_outage_begins_in_mid_run_and_counts_what_it_cost() -> None:
    """Nothing happens before a third of the calls. Copies that name another exception are not counted."""
    said: list[str] = []
    outage = Outage(0.0, 30, kill=lambda: said.append("kill"), add=lambda: said.append("add"), say=said.append)
    with outage.book:
        outage.book.calls += range(9)
        outage.step()
        assert not said
        outage.book.calls.append(9)
        outage.step()
    assert said[1:3] == ["kill", "add"]
    assert not outage.book.away

    causes = [
        failure_cause("", Failure(FailureKind.RAISED, name, "")) for name in ("BookAwayError", "UnknownPlaneError")
    ]
    causes.append(failure_cause("redeliveries_exceeded", Failure(FailureKind.RAISED, "BookAwayError", "")))
    cost = outage.cost(record(n, headers=[(FAILURE_CAUSE, cause)]) for n, cause in enumerate(causes))
    assert (cost.dead, cost.attempts) == (1, 1)


def test_a_longer_outage_may_cost_few_more_calls() -> None:
    """One more after each pause of each worker, and the longest pause is ten seconds."""
    assert 24 < most_calls(1) < most_calls(60) < most_calls(150) < 100


def test_the_time_to_full_speed() -> None:
    """Ten calls a second before; then two, four, and at last eight in a second."""
    before = [n / 10 for n in range(100)]
    after = [20.5, 20.9, *(21.1 + n / 4 for n in range(4)), *(22.1 + n / 8 for n in range(8))]
    assert full_speed_s([*before, *after], 10.0, 20.0) == pytest.approx(22.9 - 20.0, abs=0.1)
    assert full_speed_s([*before, *after[:6], 30.0], 10.0, 20.0) == pytest.approx(21.85 - 20.0, abs=0.1)
    assert full_speed_s([], 0.0, 0.0) == 0.0
