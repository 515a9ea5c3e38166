"""Reading the headers of a record, also those that the client cannot represent."""

from __future__ import annotations

from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Message


class UnreadableHeadersError(TransportError):
    """The name of a header is not UTF-8, so the client cannot return the headers.

    The reader dead-letters the record without its headers; key and value are unchanged.
    """


def headers_of(message: Message) -> HeaderList:
    """Return the headers of a record in order; an empty list if there are none.

    Nothing else may call ``message.headers()``: after a failure the client returns a list that contains null pointers,
    and touching one of them ends the process. So this replaces the headers; on the next call the record has none.

    Raises:
        UnreadableHeadersError: on the first call, if the name of a header is not UTF-8.
    """
    try:
        return message.headers() or []
    except SystemError as error:
        message.set_headers([])
        raise UnreadableHeadersError("a header's name is not UTF-8; the headers are lost") from error
