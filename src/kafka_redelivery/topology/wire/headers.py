"""The wire contract: the headers of retry records, ready records and dead letters.

The names are those of ActiveMQ, Artemis and JMS. Text is UTF-8 and numbers are decimal. Every hop builds the headers
anew, so their size does not grow with the number of attempts. The user's own headers pass through unchanged. A user's
header with a name of the contract is replaced, except ``JMSExpiration``, which users may set, and a ``redrive`` that
has not the form of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kafka_redelivery.topology.errors import HeaderError
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, Reason, Retry, place_of
from kafka_redelivery.topology.policy.lineage import Lineage, parse_message_id

MAX_MARK = 39
"""The longest mark in characters; with it a retry record still has at most 400 bytes of headers."""

_MARK = re.compile(r"([0-9a-z]{1,12})/(\d{1,6})@(\d{1,19})/(\d{1,6})", re.ASCII)


class RedriveMark(NamedTuple):
    """The header ``redrive`` of a record that was sent again from a dead-letter topic: ``job/slice@offset/number``.

    ``slice@offset`` is the dead letter: the slice of the job (a partition of a dead-letter topic) and its offset there.
    ``number`` says how often the record has been sent again, 1 for the first time. The header stays on retry records of
    the copy, and on the dead letter that it may become.
    """

    job: str
    slice: int
    offset: int
    number: int

    def __str__(self) -> str:
        return f"{self.job}/{self.slice}@{self.offset}/{self.number}"


def parse_mark(text: str) -> RedriveMark | None:
    """Return the mark; ``None`` if the text is none, as when another program has set the header."""
    found = _MARK.fullmatch(text)
    if found is None:
        return None
    job, *numbers = found.groups()
    return RedriveMark(job, *map(int, numbers))


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
REDRIVE = "redrive"
IMPORTED_FROM = "dlqImportedFrom"

DELIVERY_MODE = "JMSDeliveryMode"
"""A header of the user: ``NON_PERSISTENT`` (or JMS's 1) means that the record may be lost, any other value not."""

TRACEPARENT = "traceparent"
"""A header of the user, defined by W3C: the span that the record was created in."""

LAST_ATTEMPT = "redeliverySpan"
"""The span of the record's last attempt, in the same form.

Only a process that traces its calls sets it. All others pass it on like a header of the user, behind which it stands;
so it survives every hop, and what is read by position is found as without it.
"""

_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_NO_TRACE = b"0" * 32

NON_PERSISTENT = b"NON_PERSISTENT"
_NOT_PERSISTENT = frozenset({NON_PERSISTENT, b"1"})

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
        REDRIVE,
        IMPORTED_FROM,
    }
)
"""The headers that this project sets and that users cannot."""


class HeaderMeaning(NamedTuple):
    """A header of the wire contract, for the reference."""

    name: str
    on: str
    meaning: str


CONTRACT: Final = (
    HeaderMeaning(ORIG_ADDRESS, "retry, ready, dead letter", "Source topic."),
    HeaderMeaning(ORIG_QUEUE, "retry, ready, dead letter", "Consumer group that failed."),
    HeaderMeaning(ORIG_MESSAGE_ID, "retry, ready, dead letter", "`topic-partition@offset` of the source record."),
    HeaderMeaning(TIMESTAMP, "retry, ready, dead letter", "Timestamp of the source record."),
    HeaderMeaning(DELIVERY_COUNT, "retry, ready, dead letter", "Deliveries made so far that count."),
    HeaderMeaning(SCHEDULED_DELAY, "retry, ready with delay 0", "Delay of this redelivery in ms."),
    HeaderMeaning(SCHEDULED_DELIVERY, "retry, ready", "Due time."),
    HeaderMeaning(EXPIRATION, "any", "Time from which the record is expired; absent or 0: never. Users may set it."),
    HeaderMeaning(ORIGINAL_EXPIRATION, "dead letter", "`JMSExpiration` of the source record."),
    HeaderMeaning(
        ORIGINAL_DELIVERY_MODE, "dead letter", "`NON_PERSISTENT`, if `JMSDeliveryMode` of the source record says so."
    ),
    HeaderMeaning(
        ACTUAL_EXPIRY, "dead letter, expired record", "Time at which the record, or its dead letter, was found expired."
    ),
    HeaderMeaning(
        FAILURE_CAUSE,
        "dead letter",
        "JSON with `reason`, `exception`, `message` and `frames`, at most 800 bytes. `frames`, at most 300 of them: "
        "the last frames of the user's code, `module.function:line`.",
    ),
    HeaderMeaning(
        FAILURE_CAUSE,
        "retry, ready with delay 0",
        "JSON with `exception` and `message`, cut to the bytes that the other headers leave of 400.",
    ),
    HeaderMeaning(
        IMPORTED_FROM,
        "imported dead letter",
        "Which letter it was, `topic-partition@offset/epoch ms`, or which message of ActiveMQ, `activemq:id/digest`.",
    ),
    HeaderMeaning(REDRIVE, "retry, ready, dead letter", "Record that was sent again: `job/slice@offset/number`."),
    HeaderMeaning(
        LAST_ATTEMPT,
        "retry, ready, dead letter",
        "Span of the last attempt as a `traceparent`, if the process traces; behind the user's headers.",
    ),
)
"""What each header means, in the order of the documentation."""

_OURS_OR_EXPIRATION = OURS | {EXPIRATION}
_WHILE_WAITING = frozenset({SCHEDULED_DELAY, FAILURE_CAUSE})

_ORIGIN_ORDER = (ORIG_ADDRESS, ORIG_QUEUE, ORIG_MESSAGE_ID, TIMESTAMP, DELIVERY_COUNT)
_READY_ORDER = (*_ORIGIN_ORDER, SCHEDULED_DELIVERY)
_RETRY_ORDER = (*_ORIGIN_ORDER, SCHEDULED_DELAY, SCHEDULED_DELIVERY, FAILURE_CAUSE)
"""The last headers of most ready and retry records. They are read by position, which takes a third of the time."""

_READ_BY_NAME = OURS | {EXPIRATION, DELIVERY_MODE}
"""Headers that are read by name if they are anywhere else."""

CAUSE_LIMIT = 800
"""The maximum size of ``dlqDeliveryFailureCause`` in bytes; the exception's message is cut to fit."""

FRAMES_LIMIT = 300
"""The most bytes of that which the last frames of the user's code take; the outermost are left out first."""

RETRY_LIMIT = 400
"""The maximum size of our headers on a retry record in bytes, for names of topic and group of up to 40 characters.

Of a record that is traced and was sent again, for names of up to 30.
"""

_RETRY_NAMES = sum(
    len(name) + 3  # the length of a name takes one byte, that of a value at most two
    for name in (
        ORIG_ADDRESS,
        ORIG_QUEUE,
        ORIG_MESSAGE_ID,
        TIMESTAMP,
        DELIVERY_COUNT,
        REDRIVE,
        SCHEDULED_DELAY,
        SCHEDULED_DELIVERY,
        FAILURE_CAUSE,
    )
)
"""The size of what a retry record's headers have besides their values, in bytes."""

_LAST_ATTEMPT_SIZE = len(LAST_ATTEMPT) + 2 + 55
"""The size of the header of the last attempt, in bytes."""

_SHORTEST_CAUSE = len('{"exception":"","message":""}') + 6
"""A shorter cause would not have a letter of the exception's name."""

_CLASS_LIMIT = 200
_PLACE_LIMIT = 45
"""The characters that are left of a place that would not fit otherwise; one takes six bytes at most."""

_LINE = 8
"""The bytes that a colon and the number of a line take at most."""

_DIGITS = 19
"""The length of the largest 64-bit number."""

_quoted = json.encoder.encode_basestring
"""Encodes a string as JSON."""

HeaderList = list[tuple[str, bytes | None]]
Headers = Sequence[tuple[str, bytes | None]]
"""Kafka headers, in order. Names may repeat and values may be null."""


def retry_headers(
    lineage: Lineage, group: str, user: Headers, decision: Retry, failure: Failure | None = None
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a retry record, which waits in a tier, or of a ready record that does not wait.

    ``dlqDeliveryFailureCause`` says why the last delivery failed, in the bytes that the others leave of
    :data:`RETRY_LIMIT`.
    """
    address, partition, offset, timestamp_ms, deliveries, _, _, redrive = lineage
    delay_ms, due_ms, _ = decision
    first, second, place, room = _retry_parts(address, partition, group)
    message_id, timestamp, count = b"%b%d" % (place, offset), b"%d" % timestamp_ms, b"%d" % deliveries
    delay, due = b"%d" % delay_ms, b"%d" % due_ms
    ours: HeaderList = [
        first,
        second,
        (ORIG_MESSAGE_ID, message_id),
        (TIMESTAMP, timestamp),
        (DELIVERY_COUNT, count),
        (SCHEDULED_DELAY, delay),
        (SCHEDULED_DELIVERY, due),
    ]
    if redrive:
        ours.insert(-2, (REDRIVE, redrive.encode()))
    own = users_own(user) if user else []
    if failure is not None:
        if failure.span:
            own = _after_attempt(own, failure.span)
        if own and own[-1][0] == LAST_ATTEMPT:
            room -= _LAST_ATTEMPT_SIZE
        room -= len(message_id) + len(timestamp) + len(count) + len(delay) + len(due) + len(redrive)
        if room >= _SHORTEST_CAUSE:
            ours.append((FAILURE_CAUSE, _retry_cause(failure.exception, failure.message[:room], room)))
    return [*own, *ours] if own else ours


_Pair = tuple[str, bytes]


@lru_cache(maxsize=1024)
def _retry_parts(address: str, partition: int, group: str) -> tuple[_Pair, _Pair, bytes, int]:
    """Return what all retry records of a source partition have in common.

    Returns:
        the headers of address and queue, the message id without the offset, and the bytes that these headers leave for
        the values of the others.
    """
    first, second = _address_and_queue(address, group)
    room = RETRY_LIMIT - _RETRY_NAMES - len(first[1]) - len(second[1])
    return first, second, b"%b-%d@" % (first[1], partition), room


def dead_letter_headers(
    lineage: Lineage, group: str, user: Headers, decision: DeadLetter, now_ms: int
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a dead letter.

    ``JMSExpiration`` is the dead letter's own expiration. The record's expiration, if it had one, becomes
    ``originalExpiration``. ``_AMQ_ACTUAL_EXPIRY`` is the time at which an expired record was found to be expired, and
    ``originalDeliveryMode`` is only set for a record that was not persistent. A record with damaged headers keeps its
    ``_AMQ_ORIG_ADDRESS`` if that can be read, even if its message id cannot.
    """
    headers = [pair for pair in users_own(user) if pair[0] != EXPIRATION]
    if decision.failure.span:
        headers = _after_attempt(headers, decision.failure.span)
    headers += _origin(lineage, group)
    if decision.reason is Reason.BAD_HEADERS:
        address = read_address(user) or lineage.address
        headers = [(name, address.encode() if name == ORIG_ADDRESS else value) for name, value in headers]
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
    """Return the headers of an expired dead letter that moves to the expiry topic: its own, without expiration.

    As on a message that Artemis moves to an expiry address, ``_AMQ_ACTUAL_EXPIRY`` is the time at which it was found
    to be expired. Of an expired record it is a second one: the first is that of the record.
    """
    kept = [pair for pair in letter if pair[0] != EXPIRATION]
    return [*kept, (ACTUAL_EXPIRY, b"%d" % now_ms)]


def redriven_headers(letter: Headers, lineage: Lineage, group: str) -> HeaderList:
    """Return the headers of a ready record that a dead letter becomes when it is sent again.

    They are the user's own and the origin. Without a due time the record is not late. ``JMSExpiration`` is that of the
    lineage, so it is not the dead letter's.
    """
    headers = [*users_own(letter, _OURS_OR_EXPIRATION), *_origin(lineage, group)]
    if lineage.expiration_ms:
        headers.append((EXPIRATION, b"%d" % lineage.expiration_ms))
    return headers


def ready_headers(retry: Headers, *, in_order: bool = False) -> HeaderList:
    """Return the headers of a ready record: those of the retry record, without the delay and the last failure's cause.

    The due time stays, so the worker that redelivers the record knows how late it is. The cause is for those who look
    at what waits; to read a header back takes a worker longer than to write it.

    Args:
        retry: the headers of the retry record.
        in_order: whether :func:`read_waiting` can read them.
    """
    if in_order:
        return [*retry[:-3], retry[-2]]
    return [pair for pair in retry if pair[0] not in _WHILE_WAITING]


def with_due(retry: Headers, due_ms: int, delay_ms: int) -> HeaderList:
    """Return the headers of a retry record with another due time (epoch ms) and delay; all others stay."""
    changed = {SCHEDULED_DELIVERY: b"%d" % due_ms, SCHEDULED_DELAY: b"%d" % delay_ms}
    return [(name, changed.get(name, value)) for name, value in retry]


def users_own(headers: Headers, ours: frozenset[str] = OURS) -> list[tuple[str, bytes | None]]:
    """Return the user's own headers, in their order."""
    return [pair for pair in headers if pair[0] not in ours or (pair[0] == REDRIVE and not _redrive(pair[1]))]


def _after_attempt(own: HeaderList, span: str) -> HeaderList:
    """Return the headers in front of ours after an attempt that was a span."""
    return [*(pair for pair in own if pair[0] != LAST_ATTEMPT), (LAST_ATTEMPT, span.encode())]


def trace_id_of(headers: Headers | Mapping[str, bytes | None]) -> str:
    """Return the trace of a record's last attempt, or of its producer; empty if neither header has one."""
    values = dict(headers)
    for name in (LAST_ATTEMPT, TRACEPARENT):
        found = _TRACE.match(values.get(name) or b"")
        if found is not None and found[1] != _NO_TRACE:
            return found[1].decode()
    return ""


def failure_cause(reason: str, failure: Failure) -> bytes:
    """Return the value of ``dlqDeliveryFailureCause``: JSON with ``reason``, ``exception``, ``message`` and ``frames``.

    It has at most :data:`CAUSE_LIMIT` bytes. The name of the exception is cut to 200 characters, and the message to
    the characters that fit. ``frames`` are those of the failure, as many of the innermost as fit
    :data:`FRAMES_LIMIT`. Causes of earlier versions have none, and so they have another fingerprint.
    """
    start, frames = f'"reason":{_quoted(reason)},', _frames(failure.frames)
    return _cause(start, failure.exception[:_CLASS_LIMIT], failure.message, CAUSE_LIMIT, frames)


@lru_cache(maxsize=1024)
def _frames(frames: tuple[str, ...]) -> str:
    """Return the frames as the last field of a cause. Many records fail in the same place."""
    room = FRAMES_LIMIT - len(',"frames":[]')
    found: list[str] = []
    for frame in reversed(frames):
        quoted = _quoted(frame)
        size = _size(quoted)
        if not found:  # whatever the line is, because the place is part of the fingerprint
            place = frame.partition(":")[0]
            shortest = _size(_quoted(place))
            if size - shortest > _LINE or shortest + _LINE > room:
                quoted = _quoted(place[-_PLACE_LIMIT:])
                size = _size(quoted)
        if size > room:
            break
        room -= size
        found.append(quoted)
    return f',"frames":[{",".join(reversed(found))}]'


def _size(quoted: str) -> int:
    """Return the bytes of a string in a list, with the comma after it."""
    return len(quoted.encode(errors="replace")) + 1


def _retry_cause(exception: str, message: str, room: int) -> bytes:
    """Return the same without a reason, in at most ``room`` bytes."""
    cause = f"{_cause_start(exception)}{_quoted(message)}}}".encode(errors="replace")
    return cause if len(cause) <= room else _cause("", exception[:_CLASS_LIMIT], message, room)


@lru_cache(maxsize=256)
def _cause_start(exception: str) -> str:
    """Return the cause of a retry record up to its message. Many records fail with the same class of exception."""
    return f'{{"exception":{_quoted(exception[:_CLASS_LIMIT])},"message":'


def _cause(reason: str, exception: str, message: str, limit: int, frames: str = "") -> bytes:
    message = message[:limit]
    while True:
        quoted = _quoted(message)
        encoded = f'{{{reason}"exception":{_quoted(exception)},"message":{quoted}{frames}}}'.encode(errors="replace")
        excess = len(encoded) - limit
        if excess <= 0:
            return encoded
        if message and len(quoted.encode(errors="replace")) == len(message) + 2:  # a byte for each character
            message = message[: max(0, len(message) - excess)]
        elif message:
            message = message[: max(0, len(message) - (excess + 5) // 6)]
        else:
            exception = exception[: max(0, len(exception) - (excess + 5) // 6)]


class FailureCause(NamedTuple):
    """Why a record died. What its header does not say is empty."""

    reason: str = ""
    exception: str = ""
    message: str = ""
    frames: tuple[str, ...] | None = None
    """The last frames of the user's code, the innermost last; ``None`` in causes of earlier versions."""

    @property
    def place(self) -> str | None:
        """The place in the code, ``module.function``; ``None`` in causes of earlier versions."""
        return None if self.frames is None else place_of(self.frames)


def read_failure_cause(value: bytes | None) -> FailureCause:
    """Read the value of ``dlqDeliveryFailureCause``; one that another program wrote may say nothing."""
    try:
        cause = json.loads(value or b"{}")
    except (ValueError, RecursionError):
        return FailureCause()
    if not isinstance(cause, dict):
        return FailureCause()
    frames = cause.get("frames")
    reason, exception, message = (str(cause.get(name) or "") for name in ("reason", "exception", "message"))
    return FailureCause(reason, exception, message, tuple(map(str, frames)) if isinstance(frames, list) else None)


def read_redelivery(headers: Headers) -> tuple[Lineage, int | None, HeaderList]:
    """Read a ready record's headers: :func:`read_lineage`, :func:`read_due` and :func:`users_own` in one call.

    Raises:
        HeaderError: a header of the contract is missing or malformed.
    """
    return _read_in_order(headers) or _read_by_name(headers)


def _read_in_order(headers: Headers) -> tuple[Lineage, int, HeaderList] | None:
    """Read a ready record's headers; ``None`` if they are not in the order in which we write most, or are damaged."""
    user: HeaderList = []
    if own := len(headers) - len(_READY_ORDER):
        if own < 0 or _has_ours(headers[:own]):
            return None
        user, headers = list(headers[:own]), headers[own:]
    (a, _), (b, _), (c, message_id), (d, sent), (e, count), (f, due) = headers
    if (a, b, c, d, e, f) != _READY_ORDER or not (message_id and sent and count and due):
        return None
    origin = _read_origin(message_id, sent, count, due)
    if origin is None:
        return None
    (address, partition), offset = origin
    return Lineage(address, partition, int(offset), int(sent), int(count)), int(due), user


def _read_by_name(headers: Headers) -> tuple[Lineage, int | None, HeaderList]:
    values = dict(headers)
    lineage = _lineage(values, headers)
    due_ms = _digits(values.get(SCHEDULED_DELIVERY)) if len(values) == len(headers) else read_due(headers)
    if OURS.issuperset(values) and len(values) == len(headers) and (lineage.redrive or REDRIVE not in values):
        return lineage, due_ms, []
    return lineage, due_ms, users_own(headers)


def read_waiting(headers: Headers) -> tuple[int, tuple[str, int]] | None:
    """Read the due time of a retry record (epoch ms), and topic and partition of its source record.

    Returns:
        ``None`` if the headers are not in the order in which we write most of them, or are damaged. The other functions
        read them then.
    """
    if own := len(headers) - len(_RETRY_ORDER):
        if own < 0 or _has_ours(headers[:own]):
            return None
        headers = headers[own:]
    (a, _), (b, _), (c, message_id), (d, sent), (e, count), (f, _), (g, due), (h, _) = headers
    if (a, b, c, d, e, f, g, h) != _RETRY_ORDER or not (message_id and sent and count and due):
        return None
    origin = _read_origin(message_id, sent, count, due)
    return None if origin is None else (int(due), origin[0])


def _has_ours(user: Headers) -> bool:
    """Whether one of these headers has to be read."""
    return not _READ_BY_NAME.isdisjoint([name for name, _ in user])


def _read_origin(message_id: bytes, sent: bytes, count: bytes, due: bytes) -> tuple[tuple[str, int], bytes] | None:
    """Read topic, partition and offset from a message id; ``None`` if it or another value is damaged."""
    place, _, offset = message_id.rpartition(b"@")
    for value in (offset, sent, count, due):
        if not value.isdigit() or len(value) >= _DIGITS:  # it may be too large
            return None
    try:
        return _read_place(place), offset
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _read_place(place: bytes) -> tuple[str, int]:
    """Read ``topic-partition``, the first part of a message id.

    Raises:
        ValueError: it does not have that form.
    """
    return parse_message_id(f"{place.decode()}@0")[:2]


def read_lineage(headers: Headers) -> Lineage:
    """Read the lineage of a retry record, a ready record or a dead letter.

    Raises:
        HeaderError: a header of the contract is missing or malformed; the error names it.
    """
    return _lineage(dict(headers), headers)


def read_partial_lineage(headers: Headers, otherwise: Lineage) -> Lineage:
    """Read what is readable of a damaged lineage.

    Args:
        headers: the headers of a retry or ready record.
        otherwise: the lineage that the record would have if it were a source record. What cannot be read is taken from
            here; the three parts of the message id are taken together.
    """
    values = dict(headers)
    substitutes = dict(_origin(otherwise, group=""))
    while True:  # at most once for each substitute, because these can be read
        try:
            return _lineage(values, headers)
        except HeaderError as error:
            values[error.header] = substitutes[error.header]


def read_mark(headers: Headers) -> RedriveMark | None:
    """Read the mark of a record that was sent again; ``None`` if it has none, or another program's header."""
    value = dict(headers).get(REDRIVE)
    return parse_mark(value[: MAX_MARK + 1].decode(errors="replace")) if value else None


def read_address(headers: Headers) -> str | None:
    """Read ``_AMQ_ORIG_ADDRESS`` of any record; ``None`` if it is missing or not UTF-8."""
    try:
        return _text(dict(headers), ORIG_ADDRESS) or None
    except HeaderError:
        return None


def read_due(headers: Headers) -> int | None:
    """Read the due time of a retry or ready record (epoch ms); ``None`` if it is missing or malformed.

    A retry record without a due time is faulty, and its reader uses the age of the record instead. On a ready record
    the due time shows how late the release was; a redriven record has none.
    """
    for name, value in headers:
        if name == SCHEDULED_DELIVERY:
            return _digits(value)
    return None


def read_letter_expiration(headers: Headers, reason: str) -> int:
    """Read when a dead letter expires, or has expired (epoch ms); 0 = never.

    One that was moved to an expiry topic has expired; ``_AMQ_ACTUAL_EXPIRY`` says when it was found. Before that, a job
    may have sent it, so it is not listed as one that waits.

    Args:
        headers: of the dead letter.
        reason: why it died. With ``expired``, the first ``_AMQ_ACTUAL_EXPIRY`` is about the record, and only a second
            one about the dead letter.
    """
    found = [pair for pair in headers if pair[0] == ACTUAL_EXPIRY]
    return read_expiration(headers) or read_expiration(found[reason == Reason.EXPIRED :], ACTUAL_EXPIRY)


def read_expiration(headers: Headers, header: str = EXPIRATION) -> int:
    """Read ``JMSExpiration`` of any record (epoch ms); 0 (never) if it is missing or not a number.

    Users set this header on source records, so a malformed value is no error: the record does not expire. ``header``:
    another one with a time.
    """
    for name, value in headers:
        if name == header and value is not None and value.isdigit() and len(value) <= _DIGITS:
            return int(value)
    return 0


def read_persistent(headers: Headers) -> bool:
    """Whether a record is persistent: true unless its last ``JMSDeliveryMode`` header says that it may be lost."""
    return persistent_mode(dict(headers).get(DELIVERY_MODE))


def persistent_mode(mode: bytes | None) -> bool:
    """Whether a value of ``JMSDeliveryMode`` means that the record is persistent."""
    return mode not in _NOT_PERSISTENT


def _lineage(values: Mapping[str, bytes | None], headers: Headers) -> Lineage:
    """Read the lineage; ``values`` has the last header of each name."""
    text = _text(values, ORIG_MESSAGE_ID)
    try:
        address, partition, offset = parse_message_id(text)
    except ValueError as error:
        raise HeaderError(ORIG_MESSAGE_ID, str(error)) from None
    deliveries = _number(values, DELIVERY_COUNT)
    if deliveries < 0:
        raise HeaderError(DELIVERY_COUNT, f"is negative: {deliveries}")
    # Users may set it several times, and retry records keep theirs: the first that is a number counts.
    expiration_ms = read_expiration(headers) if EXPIRATION in values else 0
    persistent = DELIVERY_MODE not in values or persistent_mode(values[DELIVERY_MODE])
    redrive = _redrive(values[REDRIVE]) if REDRIVE in values else ""
    timestamp_ms = _number(values, TIMESTAMP)
    return Lineage(address, partition, offset, timestamp_ms, deliveries, expiration_ms, persistent, redrive)


def _redrive(value: bytes | None) -> str:
    """Return the mark; empty if another program has set the header."""
    text = (value or b"")[: MAX_MARK + 1].decode(errors="replace")
    return text if parse_mark(text) else ""


def _digits(value: bytes | None) -> int | None:
    """Read a number of 0 or more; ``None`` if it is missing or malformed."""
    return int(value) if value is not None and value.isdigit() and len(value) <= _DIGITS else None


def _origin(lineage: Lineage, group: str) -> list[tuple[str, bytes]]:
    address, queue = _address_and_queue(lineage.address, group)
    headers = [
        address,
        queue,
        (ORIG_MESSAGE_ID, b"%b-%d@%d" % (address[1], lineage.partition, lineage.offset)),
        (TIMESTAMP, b"%d" % lineage.timestamp_ms),
        (DELIVERY_COUNT, b"%d" % lineage.deliveries),
    ]
    if lineage.redrive:
        headers.append((REDRIVE, lineage.redrive.encode()))
    return headers


@lru_cache(maxsize=1024)
def _address_and_queue(address: str, group: str) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """Return the two headers that all records of a source have in common."""
    return (ORIG_ADDRESS, address.encode()), (ORIG_QUEUE, group.encode())


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


def has_expired(expiration_ms: int, now_ms: int) -> bool:
    """Whether a record with this ``JMSExpiration`` (epoch ms; 0 or less = never) has expired at ``now_ms``."""
    return 0 < expiration_ms <= now_ms


class Fate(NamedTuple):
    """What the sweeper does with one record of a dead-letter topic.

    Tools hide a dead letter as soon as it :func:`has_expired`, wherever it is in its partition. The sweeper deletes it
    later, once no record before it in the partition is kept, and by the stricter rules of :func:`fate_of`: hiding can
    be undone, deleting cannot.
    """

    expires_ms: int
    """The time from which the record may be removed (epoch ms); 0 = never."""

    own_group: bool
    """Whether it is a dead letter of the sweeper's group; no other record may be removed."""

    source: str
    """The source topic in its headers, unchecked; empty if there is none."""


def fate_of(headers: Headers, group: str, appended_ms: int, newest_ms: int) -> Fate:
    """Decide what the sweeper does with one record of a dead-letter topic.

    A worker whose clock is slow gives a dead letter an expiration that is too early, and a timestamp that is too early
    by the same amount. A record before it with a later timestamp reveals this, and the difference is added to the
    expiration.

    Args:
        headers: the record's headers.
        group: the sweeper's consumer group.
        appended_ms: the record's timestamp (epoch ms), by the clock of the process that wrote it.
        newest_ms: the latest timestamp of the records before it in its partition (epoch ms); 0 if there are none. The
            caller leaves out timestamps in the future, which come from a fast clock.
    """
    values = dict(headers)
    expiration_ms = read_expiration(headers)
    behind_ms = max(0, newest_ms - appended_ms) if expiration_ms else 0
    return Fate(
        expires_ms=expiration_ms + behind_ms,
        own_group=values.get(ORIG_QUEUE) == group.encode(),
        source=(values.get(ORIG_ADDRESS) or b"").decode(errors="replace"),
    )
