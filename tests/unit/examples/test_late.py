"""A late plane is sent when all its flights have been seen, not before."""

from __future__ import annotations

from collections.abc import Iterable

from examples.flights.data import Plane
from examples.flights.late import FailedFlights, LatePlanes
from examples.flights.ledger import Ledger
from kafka_redelivery.transport.protocols import Message
from tests.unit.consumers.records import Fetched
from tests.unit.examples.flights import world


def _waiting(tail: str, number: int) -> Fetched:
    headers: list[tuple[str, bytes | None]] = [("_AMQ_ORIG_MESSAGE_ID", b"flights-0@%d" % number)]
    return Fetched("g.retry.1s", 0, number, tail.encode(), b"", headers)


def test_a_plane_follows_its_last_flight() -> None:
    """Repeated flights and flights of other planes do not count; each plane is sent once."""
    came: list[list[Fetched]] = [
        [_waiting("N1", 0), _waiting("N1", 0), _waiting("N404", 1)],
        [_waiting("N2", 2), _waiting("N1", 3)],
        [_waiting("N1", 0), _waiting("N2", 4), _waiting("N2", 5)],
    ]
    pieces = iter(came)
    sent: list[Plane] = []

    def look() -> Iterable[Message]:
        return next(pieces)

    late = LatePlanes(world(late={"N1": 2, "N2": 3}), look, sent.append)
    lines = []
    for _ in came:
        late.step()
        lines.append([plane.tailnum for plane in sent])
    assert lines == [[], ["N1"], ["N1", "N2"]]
    assert (late.sent, late.total) == (2, 2)
    late.step()  # everything is sent: nobody looks any more


def test_a_flight_in_its_place_has_failed_when_the_journal_says_so() -> None:
    """Each comes once, also if the journal is ahead of the topic or behind it."""
    ledger = Ledger()
    pieces = iter([[_flight("N1", 0), _flight("N3", 1), _flight("N2", 2)], [_flight("N2", 3)], []])
    failed = FailedFlights(world(late={"N1": 1, "N2": 1}), lambda: next(pieces), ledger)

    ledger.retried.update([(0, 0), (0, 1), (0, 3)])
    assert [message.key() for message in failed()] == [b"N1"]
    assert [message.offset() for message in failed()] == [3]
    ledger.retried.update([(0, 0), (0, 2)])
    assert [message.offset() for message in failed()] == [2]


def _flight(tail: str, number: int) -> Fetched:
    return Fetched("flights", 0, number, tail.encode(), b"")
