"""A header whose name is not UTF-8: the client fails once, then hands out null pointers."""

from typing import ClassVar

import pytest

from tests.unit.consumers.records import Fetched
from topology.headers import HeaderList
from transport.message_headers import UnreadableHeadersError, headers_of


class Unreadable(Fetched):
    """Behaves as the client's class does, but counts instead of ending the process."""

    asked: ClassVar[int] = 0

    def headers(self) -> HeaderList | None:
        if self.pairs is not None:
            return list(self.pairs)
        Unreadable.asked += 1
        raise SystemError("returned a result with an exception set")


def test_unreadable_headers_are_asked_for_once() -> None:
    """The first question raises, every later one finds no headers and never reaches the client's broken list."""
    message = Unreadable("orders", 0, 7)

    with pytest.raises(UnreadableHeadersError):
        headers_of(message)

    assert headers_of(message) == []
    assert Unreadable.asked == 1
