"""The wire contract: what our copies of a record say in their headers.

Names are ActiveMQ's, Artemis's and JMS's; text is UTF-8, numbers are decimal. Headers are built fresh
at each hop and never appended to, so their size does not grow with the attempts. The user's own
headers pass through untouched; a header of the user's that bears one of our names is replaced
(except ``JMSExpiration``, which is the user's to set).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from topology.decision import DeadLetter, Failure, Retry
from topology.errors import HeaderError
from topology.lineage import Lineage, parse_message_id

ORIG_ADDRESS = "_AMQ_ORIG_ADDRESS"
ORIG_QUEUE = "_AMQ_ORIG_QUEUE"
ORIG_MESSAGE_ID = "_AMQ_ORIG_MESSAGE_ID"
TIMESTAMP = "JMSTimestamp"
DELIVERY_COUNT = "JMSXDeliveryCount"
SCHEDULED_DELAY = "AMQ_SCHEDULED_DELAY"
SCHEDULED_DELIVERY = "_AMQ_SCHED_DELIVERY"
EXPIRATION = "JMSExpiration"
ACTUAL_EXPIRY = "_AMQ_ACTUAL_EXPIRY"
ORIGINAL_EXPIRATION = "originalExpiration"
FAILURE_CAUSE = "dlqDeliveryFailureCause"

OURS = frozenset(
    {
        ORIG_ADDRESS,
        ORIG_QUEUE,
        ORIG_MESSAGE_ID,
        TIMESTAMP,
        DELIVERY_COUNT,
        SCHEDULED_DELAY,
        SCHEDULED_DELIVERY,
        ACTUAL_EXPIRY,
        ORIGINAL_EXPIRATION,
        FAILURE_CAUSE,
    }
)
_RETRY_ONLY = frozenset({SCHEDULED_DELAY, SCHEDULED_DELIVERY})

CAUSE_LIMIT = 800
"""Most bytes of ``dlqDeliveryFailureCause``; the exception's message is cut to fit."""

_CLASS_LIMIT = 200

Headers = Sequence[tuple[str, bytes | None]]
"""Kafka headers in order; names may repeat, values may be null."""


def retry_headers(lineage: Lineage, group: str, user: Headers, decision: Retry) -> list[tuple[str, bytes | None]]:
    """Headers of the copy that waits in a tier, or goes straight to the ready topic."""
    headers = users_own(user)
    headers += _origin(lineage, group)
    headers.append((SCHEDULED_DELAY, b"%d" % decision.delay_ms))
    headers.append((SCHEDULED_DELIVERY, b"%d" % decision.due_ms))
    return headers


def dead_letter_headers(
    lineage: Lineage, group: str, user: Headers, decision: DeadLetter, now_ms: int
) -> list[tuple[str, bytes | None]]:
    """Headers of a dead letter.

    ``JMSExpiration`` is the dead letter's own; the record's, if it had one, becomes
    ``originalExpiration``. ``_AMQ_ACTUAL_EXPIRY`` tells when an expired record was found expired.
    """
    headers = [pair for pair in users_own(user) if pair[0] != EXPIRATION]
    headers += _origin(lineage, group)
    if decision.expiration_ms:
        headers.append((EXPIRATION, b"%d" % decision.expiration_ms))
    if lineage.expiration_ms:
        headers.append((ORIGINAL_EXPIRATION, b"%d" % lineage.expiration_ms))
    if decision.reason == "expired":
        headers.append((ACTUAL_EXPIRY, b"%d" % now_ms))
    headers.append((FAILURE_CAUSE, failure_cause(decision.reason, decision.failure)))
    return headers


def users_own(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers that are not ours, in their order."""
    return [pair for pair in headers if pair[0] not in OURS]


def failure_cause(reason: str, failure: Failure) -> bytes:
    """``dlqDeliveryFailureCause``: a JSON object with ``reason``, ``exception`` and ``message``.

    At most :data:`CAUSE_LIMIT` bytes: the message is cut at a character, the class name at 200.
    """
    exception = failure.exception[:_CLASS_LIMIT]
    message = failure.message[:CAUSE_LIMIT]
    while True:
        cause = {"reason": str(reason), "exception": exception, "message": message}
        encoded = json.dumps(cause, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        excess = len(encoded) - CAUSE_LIMIT
        if excess <= 0:
            return encoded
        if message:
            message = message[: max(0, len(message) - (excess + 3) // 4)]
        else:
            exception = exception[: max(0, len(exception) - (excess + 3) // 4)]


def read_lineage(headers: Headers) -> Lineage:
    """The lineage that a retry, ready or dead-letter copy carries.

    Raises:
        HeaderError: a header of the contract is missing or malformed; names it.
    """
    values = _values(headers)
    text = _text(values, ORIG_MESSAGE_ID)
    try:
        address, partition, offset = parse_message_id(text)
    except ValueError as error:
        raise HeaderError(ORIG_MESSAGE_ID, str(error)) from None
    expiration = _number(values, EXPIRATION) if values.get(EXPIRATION) else 0
    return Lineage(
        address,
        partition,
        offset,
        _number(values, TIMESTAMP),
        _number(values, DELIVERY_COUNT),
        expiration,
    )


def read_due(headers: Headers) -> int:
    """The due time (epoch ms) of a retry copy.

    Raises:
        HeaderError: it is missing or not a number.
    """
    return _number(_values(headers), SCHEDULED_DELIVERY)


def read_expiration(headers: Headers) -> int:
    """``JMSExpiration`` of any record in epoch ms; 0 (never) if absent or not a number.

    On a source record this header is somebody else's text: what cannot be read cannot expire a record.
    """
    for name, value in headers:
        if name == EXPIRATION and value is not None and value.isdigit() and len(value) <= 19:  # noqa: PLR2004 - 64 bits
            return int(value)
    return 0


def _origin(lineage: Lineage, group: str) -> list[tuple[str, bytes | None]]:
    return [
        (ORIG_ADDRESS, lineage.address.encode()),
        (ORIG_QUEUE, group.encode()),
        (ORIG_MESSAGE_ID, lineage.message_id.encode()),
        (TIMESTAMP, b"%d" % lineage.timestamp_ms),
        (DELIVERY_COUNT, b"%d" % lineage.deliveries),
    ]


def _values(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes | None]:
    return dict(headers)


def _text(values: dict[str, bytes | None], name: str) -> str:
    value = values.get(name)
    if value is None:
        raise HeaderError(name, "is missing")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise HeaderError(name, "is not UTF-8") from None


def _number(values: dict[str, bytes | None], name: str) -> int:
    text = _text(values, name)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):  # noqa: PLR2004 - 64 bits
        raise HeaderError(name, f"is not a number: {text[:50]!r}")
    return int(text)
