"""Reading the headers of a record, also those that the client cannot represent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import length_hint

from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Message

HEADER_OVERHEAD_BYTES = 128
"""Memory that a header takes beside its name and value: a tuple, a str and a bytes object."""

_UNREADABLE: HeaderList = []
"""Takes the place of headers that could not be read, until :func:`headers_of` raises. Recognised by its identity."""

_LOST = "a header's name is not UTF-8; the headers are lost"


class UnreadableHeadersError(TransportError):
    """The name of a header is not UTF-8, so the client cannot return the headers.

    The reader dead-letters the record without its headers; key and value are unchanged.
    """


def headers_of(message: Message) -> HeaderList:
    """Return the headers of a record in order; an empty list if there are none.

    Nothing outside this module may call ``message.headers()``: after a failure the client returns a list that contains
    null pointers, and touching one of them ends the process. So this replaces the headers; on the next call the record
    has none.

    Raises:
        UnreadableHeadersError: on the first call, if the name of a header is not UTF-8.
    """
    try:
        headers = message.headers()
    except SystemError as error:
        message.set_headers([])
        raise UnreadableHeadersError(_LOST) from error
    if headers is _UNREADABLE:
        message.set_headers([])
        raise UnreadableHeadersError(_LOST)
    return headers or []


def readable_headers(message: Message) -> HeaderList:
    """Return the headers of a record as :func:`headers_of`; an empty list if they cannot be read.

    :func:`headers_of` still raises its error once for those: who looked at a record must not send it without headers.
    """
    try:
        return headers_of(message)
    except UnreadableHeadersError:
        message.set_headers(_UNREADABLE)
        return []


def none_has_headers(messages: Sequence[Message]) -> bool:
    """Whether it is certain that no record has headers, not even some that cannot be read.

    Args:
        messages: records of one class; not empty.
    """
    read, rest = type(messages[0]).headers, iter(messages)
    try:
        return list(map(read, rest)).count(None) == len(messages)
    except SystemError:
        messages[len(messages) - length_hint(rest) - 1].set_headers(_UNREADABLE)
        return False


def all_headers(messages: Sequence[Message]) -> list[HeaderList]:
    """Return the headers of each record, as :func:`headers_of`; an empty list for those that cannot be read.

    Args:
        messages: records of one class.
    """
    return [each or [] for each in _read(messages, [])] if messages else []


def size_of_headers(messages: Sequence[Message]) -> int:
    """Return the memory that the headers of records take, in bytes.

    Headers that cannot be read count as none. The result stays the same after :func:`headers_of`, which still raises
    its error once for those.

    Args:
        messages: a list or tuple of records of one class; not empty.
    """
    pairs = list(chain.from_iterable(filter(None, _read(messages, _UNREADABLE))))
    try:
        size = sum(map(len, chain.from_iterable(pairs)))  # type: ignore[arg-type] # mostly, no value is null
    except TypeError:
        size = sum(len(name) + len(value or b"") for name, value in pairs)
    return HEADER_OVERHEAD_BYTES * len(pairs) + size


def _read(messages: Sequence[Message], unreadable: HeaderList) -> list[HeaderList | None]:
    """Return the headers of each record, and replace those that cannot be read by ``unreadable`` in the record."""
    read = type(messages[0]).headers  # looked up once: this runs for every record
    found: list[HeaderList | None] = []
    rest = iter(messages)
    while True:
        try:
            found.extend(map(read, rest))
        except SystemError:
            messages[len(messages) - length_hint(rest) - 1].set_headers(unreadable)
            found.append(None)
        else:
            return found
