"""A header whose name is not UTF-8: the client fails once, then hands out null pointers."""

from collections.abc import Iterator

import pytest

from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.clients.message_headers import (
    HEADER_OVERHEAD_BYTES,
    UnreadableHeadersError,
    headers_of,
    none_has_headers,
    readable_headers,
    size_of_headers,
)
from tests.unit.consumers.records import Fetched

ASKED: list[int] = []
"""The offsets of the records whose headers the client could not return."""


class Unreadable(Fetched):
    """Behaves like the client class, but raises where the real one would end the process."""

    def headers(self) -> HeaderList | None:
        if self.pairs is not None or self.key_bytes is not None:
            return self.pairs
        assert self.place not in ASKED, "the real client would end the process"
        ASKED.append(self.place)
        raise SystemError("returned a result with an exception set")


@pytest.fixture(autouse=True)
def _asked() -> Iterator[None]:
    yield
    ASKED.clear()


def test_unreadable_headers_are_read_once() -> None:
    """The first read raises. Later ones return no headers without calling the client again."""
    message = Unreadable("orders", 0, 7)

    with pytest.raises(UnreadableHeadersError):
        headers_of(message)

    assert headers_of(message) == []
    assert ASKED == [7]


def test_measuring_unreadable_headers_leaves_the_error_to_the_reader() -> None:
    """They have no size, the others do. The first read raises as if nothing had been measured."""
    none, small = Unreadable("orders", 0, 0, b"key"), Unreadable("orders", 0, 1, pairs=[("name", b"value"), ("", None)])
    bad, worse = Unreadable("orders", 0, 2), Unreadable("orders", 0, 3)
    messages = [bad, none, small, worse]

    for _ in range(2):
        assert size_of_headers(messages) == 9 + 2 * HEADER_OVERHEAD_BYTES
    for message in (bad, worse):
        with pytest.raises(UnreadableHeadersError):
            headers_of(message)
        assert headers_of(message) == []

    assert size_of_headers(messages) == 9 + 2 * HEADER_OVERHEAD_BYTES
    assert headers_of(none) == []
    assert headers_of(small) == [("name", b"value"), ("", None)]
    assert ASKED == [2, 3]


def test_looking_at_unreadable_headers_leaves_the_error_to_who_sends_them() -> None:
    """However often they are looked at. The client is called once."""
    message = Unreadable("orders", 0, 7)
    for _ in range(2):
        assert readable_headers(message) == []
    with pytest.raises(UnreadableHeadersError):
        headers_of(message)
    assert headers_of(message) == readable_headers(message) == []
    assert ASKED == [7]


def test_unreadable_headers_are_headers() -> None:
    """The question is asked without a second call of the client, before or after they were measured."""
    none, small = Unreadable("orders", 0, 0, b"key"), Unreadable("orders", 0, 1, pairs=[("name", b"value")])
    bad, worse = Unreadable("orders", 0, 2), Unreadable("orders", 0, 3)
    assert none_has_headers([none, none])
    assert not none_has_headers([none, small])
    size_of_headers([worse])
    for message in (bad, worse):
        for _ in range(2):
            assert not none_has_headers([none, message, none])
        with pytest.raises(UnreadableHeadersError):
            headers_of(message)
