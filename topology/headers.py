"""The wire contract: what our copies of a record say in their headers.

Names are ActiveMQ's, Artemis's and JMS's; text is UTF-8, numbers are decimal. Headers are built fresh
at each hop and never appended to, so their size does not grow with the attempts. The user's own
headers pass through untouched; a header of the user's that bears one of our names is replaced
(except ``JMSExpiration``, which is the user's to set).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

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
ORIGINAL_DELIVERY_MODE = "originalDeliveryMode"
FAILURE_CAUSE = "dlqDeliveryFailureCause"

DELIVERY_MODE = "JMSDeliveryMode"
"""The user's own: ``NON_PERSISTENT`` (or JMS's 1) says that the record may be lost; anything else that it may not."""

NON_PERSISTENT = b"NON_PERSISTENT"

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
        ORIGINAL_DELIVERY_MODE,
        FAILURE_CAUSE,
    }
)

CAUSE_LIMIT = 800
"""Most bytes of ``dlqDeliveryFailureCause``; the exception's message is cut to fit."""

_CLASS_LIMIT = 200
_DIGITS = 19
"""Of a 64-bit number."""

_quoted = json.JSONEncoder(ensure_ascii=False).encode
"""A string as JSON writes it."""

HeaderList = list[tuple[str, bytes | None]]
Headers = Sequence[tuple[str, bytes | None]]
"""Kafka headers in order; names may repeat, values may be null."""


def retry_headers(lineage: Lineage, group: str, user: Headers, decision: Retry) -> list[tuple[str, bytes | None]]:
    """Headers of the copy that waits in a tier, or goes straight to the ready topic."""
    return [
        *users_own(user),
        *_origin(lineage, group),
        (SCHEDULED_DELAY, b"%d" % decision.delay_ms),
        (SCHEDULED_DELIVERY, b"%d" % decision.due_ms),
    ]


def dead_letter_headers(
    lineage: Lineage, group: str, user: Headers, decision: DeadLetter, now_ms: int
) -> list[tuple[str, bytes | None]]:
    """Headers of a dead letter.

    ``JMSExpiration`` is the dead letter's own; the record's, if it had one, becomes
    ``originalExpiration``. ``_AMQ_ACTUAL_EXPIRY`` tells when an expired record was found expired, and
    ``originalDeliveryMode`` that the record was not persistent.
    """
    headers = [pair for pair in users_own(user) if pair[0] != EXPIRATION]
    headers += _origin(lineage, group)
    if decision.expiration_ms:
        headers.append((EXPIRATION, b"%d" % decision.expiration_ms))
    if lineage.expiration_ms:
        headers.append((ORIGINAL_EXPIRATION, b"%d" % lineage.expiration_ms))
    if not lineage.persistent:
        headers.append((ORIGINAL_DELIVERY_MODE, NON_PERSISTENT))
    if decision.reason == "expired":
        headers.append((ACTUAL_EXPIRY, b"%d" % now_ms))
    headers.append((FAILURE_CAUSE, failure_cause(decision.reason, decision.failure)))
    return headers


def expired_dead_letter_headers(letter: Headers, now_ms: int) -> HeaderList:
    """Headers of a dead letter that is moved because it has expired: its own, but it expires no more.

    ``_AMQ_ACTUAL_EXPIRY`` tells when it was found expired, as Artemis has it on what goes to an expiry address.
    """
    kept = [pair for pair in letter if pair[0] not in {EXPIRATION, ACTUAL_EXPIRY}]
    return [*kept, (ACTUAL_EXPIRY, b"%d" % now_ms)]


def ready_headers(retry: Headers) -> HeaderList:
    """Headers of the ready copy, from those of the retry copy: all but the delay.

    The due time stays, so that the worker that handles the record again knows how late it is.
    """
    return [pair for pair in retry if pair[0] != SCHEDULED_DELAY]


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
        cause = f'{{"reason":{_quoted(reason)},"exception":{_quoted(exception)},"message":{_quoted(message)}}}'
        encoded = cause.encode(errors="replace")
        excess = len(encoded) - CAUSE_LIMIT
        if excess <= 0:
            return encoded
        if message:
            message = message[: max(0, len(message) - (excess + 5) // 6)]
        else:
            exception = exception[: max(0, len(exception) - (excess + 5) // 6)]


def read_redelivery(headers: Headers) -> tuple[Lineage, int | None, HeaderList]:
    """All that a ready copy says: :func:`read_lineage`, :func:`read_due` and :func:`users_own` in one.

    Raises:
        HeaderError: as :func:`read_lineage`.
    """
    values = dict(headers)
    lineage = _lineage(values, headers)
    due_ms = _due(values.get(SCHEDULED_DELIVERY)) if len(values) == len(headers) else read_due(headers)
    return lineage, due_ms, [] if OURS.issuperset(values) else users_own(headers)


def read_lineage(headers: Headers) -> Lineage:
    """The lineage that a retry, ready or dead-letter copy carries.

    Raises:
        HeaderError: a header of the contract is missing or malformed; names it.
    """
    return _lineage(dict(headers), headers)


def read_due(headers: Headers) -> int | None:
    """When the copy is or was due (epoch ms), ``None`` if it does not say so readably.

    On a retry copy that means a fault: the reader takes the copy's age instead. On a ready copy it
    tells how late the release was; one that was redriven has none.
    """
    for name, value in headers:
        if name == SCHEDULED_DELIVERY:
            return _due(value)
    return None


def read_expiration(headers: Headers) -> int:
    """``JMSExpiration`` of any record in epoch ms; 0 (never) if absent or not a number.

    On a source record this header is somebody else's text: what cannot be read cannot expire a record.
    """
    for name, value in headers:
        if name == EXPIRATION and value is not None and value.isdigit() and len(value) <= _DIGITS:
            return int(value)
    return 0


def read_persistent(headers: Headers) -> bool:
    """Whether a record may not be lost: false only if ``JMSDeliveryMode`` says so, the last of it."""
    return persistent_mode(dict(headers).get(DELIVERY_MODE))


def persistent_mode(mode: bytes | None) -> bool:
    """Whether a value of ``JMSDeliveryMode`` means persistent."""
    return mode not in {NON_PERSISTENT, b"1"}


def _lineage(values: Mapping[str, bytes | None], headers: Headers) -> Lineage:
    """From the headers by their names, the last of each."""
    text = _text(values, ORIG_MESSAGE_ID)
    try:
        address, partition, offset = parse_message_id(text)
    except ValueError as error:
        raise HeaderError(ORIG_MESSAGE_ID, str(error)) from None
    deliveries = _number(values, DELIVERY_COUNT)
    if deliveries < 0:
        raise HeaderError(DELIVERY_COUNT, f"is negative: {deliveries}")
    # May be the user's own text on a retry copy too: the first that can be read.
    expiration_ms = read_expiration(headers) if EXPIRATION in values else 0
    persistent = persistent_mode(values.get(DELIVERY_MODE))
    return Lineage(address, partition, offset, _number(values, TIMESTAMP), deliveries, expiration_ms, persistent)


def _due(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) <= _DIGITS else None


def _origin(lineage: Lineage, group: str) -> list[tuple[str, bytes | None]]:
    return [
        (ORIG_ADDRESS, lineage.address.encode()),
        (ORIG_QUEUE, group.encode()),
        (ORIG_MESSAGE_ID, lineage.message_id.encode()),
        (TIMESTAMP, b"%d" % lineage.timestamp_ms),
        (DELIVERY_COUNT, b"%d" % lineage.deliveries),
    ]


def _text(values: Mapping[str, bytes | None], name: str) -> str:
    value = values.get(name)
    if value is None:
        raise HeaderError(name, "is missing")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise HeaderError(name, "is not UTF-8") from None


def _number(values: Mapping[str, bytes | None], name: str) -> int:
    value = values.get(name)
    if value is not None and value.isdigit() and len(value) <= _DIGITS:
        return int(value)
    text = _text(values, name)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        raise HeaderError(name, f"is not a number: {text[:50]!r}")
    return int(text)
