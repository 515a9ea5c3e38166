"""A late plane is sent when all its flights have been seen, not before."""

from __future__ import annotations

from collections.abc import Iterable

from examples.flights.data import Plane
from examples.flights.late import LatePlanes
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
