"""A header whose name is not UTF-8: the client fails once, then hands out null pointers."""

from typing import ClassVar

import pytest

from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from tests.unit.consumers.records import Fetched


class Unreadable(Fetched):
    """Behaves like the client class, but raises where the real one would end the process."""

    asked: ClassVar[int] = 0

    def headers(self) -> HeaderList | None:
        if self.pairs is not None:
            return list(self.pairs)
        Unreadable.asked += 1
        raise SystemError("returned a result with an exception set")


def test_unreadable_headers_are_read_once() -> None:
    """The first read raises. Later ones return no headers without calling the client again."""
    message = Unreadable("orders", 0, 7)

    with pytest.raises(UnreadableHeadersError):
        headers_of(message)

    assert headers_of(message) == []
    assert Unreadable.asked == 1
