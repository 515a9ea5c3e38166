"""What the client means by what it raises."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


def client_error(exception: KafkaException | SystemError) -> KafkaError:
    """The error that a call of the client ended with.

    The client raises a fatal error between two callbacks, and goes on calling. To Python it looks as if what is
    called then had raised and returned at once, which it reports as a ``SystemError`` caused by the client's own.

    Raises:
        SystemError: it has another cause.
    """
    cause: BaseException | None = exception
    while isinstance(cause, SystemError):
        cause = cause.__cause__
    if not isinstance(cause, KafkaException):
        raise exception
    error: KafkaError = cause.args[0]
    return error
