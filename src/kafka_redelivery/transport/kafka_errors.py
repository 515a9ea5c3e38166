"""Errors of the Kafka client: which of them are transient, and what the others are in our classes."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from kafka_redelivery.transport.errors import (
    ClientSettingsError,
    ConsumerError,
    PartitionUnfetchableError,
    ReaderError,
    TopicForbiddenError,
    Unfetchable,
    grant,
)

_TRANSIENT_ANSWERS = frozenset(
    {
        # A broker is starting, stopping or handing over.
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # metadata may lag behind the creation of a topic
    }
)

_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

NO_LOGIN = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - the client's own name
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
"""Codes of a refused login."""

_TRANSIENT_FOR_CONSUMERS = frozenset(
    {
        # The connection is lost: the client itself connects again, for ever.
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - the client's own names
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._WAIT_CACHE,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - added a moment ago, and known to the member that assigned it
        # The group changes: the listener hears of the new assignment.
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
    }
)

_DAMAGED = frozenset(
    {
        KafkaError.INVALID_MSG,  # found by the broker: CORRUPT_MESSAGE
        KafkaError._BAD_MSG,  # noqa: SLF001 - found by the client, with check.crcs or while it parses
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    }
)


_NO_PROTOCOL = f"ConsumerGroupHeartbeat fatal error: {KafkaError(KafkaError.UNSUPPORTED_VERSION).str()}"
"""Part of the text of a fatal error, of which the client reports no code."""


def is_transient(error: KafkaError) -> bool:
    """Whether a broker may answer the same request of an admin client differently a moment later.

    Lost connections are not among these: a command or a start reports them immediately instead of waiting.
    """
    return error.code() in _TRANSIENT_ANSWERS


def is_transient_for_consumer(error: KafkaError) -> bool:
    """Whether a consumer recovers from an error by itself; unlike a command, it also waits for lost connections.

    ``error.retriable()`` alone is not enough: the client sets it for transactions only.
    """
    return is_transient(error) or error.code() in _TRANSIENT_FOR_CONSUMERS or error.retriable()


def is_late(error: KafkaError) -> bool:
    """Whether the client has no answer in time."""
    return error.code() == KafkaError._TIMED_OUT  # noqa: SLF001 - the client's own name


def is_end(error: KafkaError) -> bool:
    """Whether it is no error, but the event that the end of a partition is reached."""
    return error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - the client's own name


def is_fatal(error: KafkaError) -> bool:
    """Whether the client cannot be used any more. A consumer reports only that an error was fatal, not which one."""
    return error.fatal() or error.code() == KafkaError._FATAL  # noqa: SLF001 - the client's own name


def consumer_error(
    error: KafkaError, topic: str, group: str, number: int = -1, offset: int = 0, *, joins: bool = True
) -> ReaderError:
    """Convert an error of a consumer that is not transient.

    Args:
        error: what the client reports.
        topic: the topic that it concerns; empty for none.
        group: the consumer's group.
        number: the number of the partition that it concerns; -1 for none.
        offset: the offset that could not be fetched.
        joins: whether the consumer is a member of the group. Kafka looks for the group's coordinator for others, too.
    """
    code = error.code()
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED and topic:
        return TopicForbiddenError(topic, error.str())
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        right = f"{'Read' if joins else 'Describe'} on group {group}"
        return ConsumerError(f"the consumer cannot go on: {error.str()}{grant(right)}")
    if topic and number >= 0 and not is_fatal(error):
        return PartitionUnfetchableError(topic, number, offset, error.str(), _unfetchable(code))
    fix = ""
    if _NO_PROTOCOL in error.str():
        fix = "; these brokers do not offer the consumer protocol (Kafka 4.0): remove group.protocol from kafka"
    return ConsumerError(f"the consumer cannot go on: {error.str()}{fix}", fatal=is_fatal(error))


def _unfetchable(code: int) -> Unfetchable:
    if code == KafkaError._NOT_IMPLEMENTED:  # noqa: SLF001 - an unknown version of the batch, or an unknown codec
        return Unfetchable.UNKNOWN_FORMAT
    return Unfetchable.DAMAGED if code in _DAMAGED else Unfetchable.BROKER


def is_denied(error: KafkaError) -> bool:
    """Whether the user lacks a right."""
    return error.code() in _DENIED


def with_right(error: KafkaError, right: str) -> KafkaError:
    """Return an error whose message, if the user lacks a right, says which one to grant."""
    return KafkaError(error.code(), error.str() + grant(right)) if is_denied(error) else error


def error_of(exception: KafkaException | SystemError) -> KafkaError:
    """Return the error that a call of the client ended with.

    The client can raise a fatal error between two callbacks and then go on calling. To Python it looks as if the
    called function had raised and returned a value, which Python reports as a ``SystemError`` with the client's
    exception as its cause.

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


def settings_refused(error: Exception) -> ClientSettingsError:
    """Convert what the client raises when it is opened: an unknown setting, or a value that it cannot use."""
    return ClientSettingsError(
        f"the Kafka client refuses the kafka settings: {message_of(error)}; correct that setting or remove it: "
        "its names and values are librdkafka's"
    )


def message_of(error: Exception) -> str:
    """Return the message of an exception of the client, without its error code."""
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
