"""Finds the messages that STOMP shows only in part."""

from __future__ import annotations

import re
from typing import Final

_LENGTH: Final = re.compile(rb"^content-length:\s*(\d+)", re.MULTILINE)
_ACK: Final = re.compile(rb"^ack:(.*)$", re.MULTILINE)


class FrameEnds:
    """Follows the bytes of a connection, and notes messages that go on behind the end of their frame.

    Classic shows a text without its length, so its frame ends at the first U+0000 of the text. The client passes the
    beginning on and skips the rest. What follows a whole frame has the token of the connection, which no text contains.
    """

    def __init__(self, token: str) -> None:
        """Begin with a connection.

        Args:
            token: with what the names of all subscriptions and receipts of the connection begin.
        """
        marks = re.escape(token.encode())
        self._known = re.compile(
            rb"MESSAGE\n(?:.*\n)*?subscription:%b|RECEIPT\n(?:.*\n)*?receipt-id:%b|CONNECTED\n|ERROR\n" % (marks, marks)
        )
        self._data = bytearray()
        self._searched = 0
        self._length: int | None = None
        self._in_body = False
        self.open = ""
        """The ``ack`` of the last message, as long as no other frame has followed it."""

        self.cut: set[str] = set()
        """The ``ack`` of each message that is known to go on behind its frame."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._data += data
        while self._body() if self._in_body else self._head():
            pass

    def _head(self) -> bool:
        """Take the head of a frame, or the rest of a text; whether it is there."""
        data = self._data
        while data.startswith((b"\n", b"\r")):
            del data[:1]
        end, head_end = data.find(b"\0"), data.find(b"\n\n")
        if end >= 0 and not 0 <= head_end < end:
            self._take(end + 1)
            self.cut.add(self.open)
            return True
        if head_end < 0:
            return False
        head = self._take(head_end + 2)
        length = _LENGTH.search(head)
        self._length, self._in_body = None if length is None else int(length[1]), True
        if self._known.match(head) is None:
            self.cut.add(self.open)
        else:
            ack = _ACK.search(head)
            self.open = "" if ack is None else ack[1].decode(errors="replace").replace("\\c", ":")
        return True

    def _body(self) -> bool:
        """Take the body of a frame with its end; whether it is there."""
        end = self._data.find(b"\0", self._searched) if self._length is None else self._length
        if not 0 <= end < len(self._data):
            self._searched = len(self._data)
            return False
        if self._data[end]:
            self.cut.add(self.open)
        self._take(end + 1)
        self._in_body = False
        return True

    def _take(self, size: int) -> bytes:
        taken = bytes(self._data[:size])
        del self._data[:size]
        self._searched = 0
        return taken
