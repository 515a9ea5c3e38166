"""Reading a record's headers, also those that the client cannot represent."""

from __future__ import annotations

from topology.headers import HeaderList
from transport.errors import TransportError
from transport.protocols import Message


class UnreadableHeadersError(TransportError):
    """A header's name is not UTF-8, so the client cannot hand the headers out.

    The reader dead-letters the record, without the headers; its key and value are untouched.
    """


def headers_of(message: Message) -> HeaderList:
    """The headers of a record, in order; empty without any.

    This is the only place where a record's headers may be asked for: after a failure the client
    gives out a list with null pointers in it, and whoever touches one ends the process. So they are
    replaced at once; asked again, such a record has none.

    Raises:
        UnreadableHeadersError: the first time, for a name that is not UTF-8.
    """
    try:
        return message.headers() or []
    except SystemError as error:
        message.set_headers([])
        raise UnreadableHeadersError("a header's name is not UTF-8; the headers are lost") from error
