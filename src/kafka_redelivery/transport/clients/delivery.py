"""Producing records, and which of them the broker or the client refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord

Failures = list[tuple[int, KafkaError]]
"""Indexes of records that were not delivered, and their errors."""

_UNKNOWN_PARTITION: Final = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - the client's own name

TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
UNCLEAR: Final = TOO_LARGE | {KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
"""Errors of a batch that do not show which of its records is the cause, or whether each has the same."""

REFUSALS: Final = UNCLEAR | frozenset(
    {
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        _UNKNOWN_PARTITION,
    }
)
"""Errors of :func:`confirmed` failures with which Kafka, or the client, refuses a record."""

UNKNOWN_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001
"""The client also reports them when its metadata is outdated. Ask the brokers whether the topic exists."""

FORBIDDEN: Final = KafkaError.TOPIC_AUTHORIZATION_FAILED
TOO_FEW_IN_SYNC: Final = KafkaError.NOT_ENOUGH_REPLICAS
_OFFLINE: Final = frozenset({KafkaError.LEADER_NOT_AVAILABLE, TOO_FEW_IN_SYNC})
UNWRITABLE: Final = _OFFLINE | {FORBIDDEN, KafkaError.UNKNOWN_TOPIC_OR_PART}
"""Errors of :func:`confirmed` failures that concern all records of a topic or partition."""

_LATE = frozenset({KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT})  # noqa: SLF001 - the client's own names
ASK: Final = UNKNOWN_TOPIC | {_UNKNOWN_PARTITION, FORBIDDEN} | _OFFLINE | _LATE
"""Errors that may be those of topics or partitions that cannot be written."""

Unwritable = Callable[[Sequence[ProducerRecord]], Mapping[int, KafkaError]]
"""Asks the brokers, and returns the indexes of the records that cannot be written, each with the cause."""

_CAUSES: Mapping[int, RefusalCause] = {
    KafkaError.MSG_SIZE_TOO_LARGE: RefusalCause.TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: RefusalCause.TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: RefusalCause.FORBIDDEN,
    KafkaError.UNKNOWN_TOPIC_OR_PART: RefusalCause.MISSING,
    _UNKNOWN_PARTITION: RefusalCause.MISSING,
    KafkaError.INVALID_TIMESTAMP: RefusalCause.CLOCK,  # all timestamps are times of this machine
    **dict.fromkeys(_OFFLINE, RefusalCause.OFFLINE),
}

_SEARCH_S = 5.0
"""How long one transaction of the search for refused records may be open; it must not time out."""

_ATTEMPTS_PER_RECORD = 3
"""The client may purge a record of a transaction that follows an aborted one, so one attempt is not enough."""

_ASK_AFTER_S = 3.0
"""How long to wait for answers before asking whether there can be any. The client waits half a minute for a topic.

The wait before each further question is twice as long: a broker that has died leads its partitions for some seconds.
"""

_AFTER_FAILURE_S = 1.0
"""How long to wait for further answers after the first failed delivery."""

_FLUSH_S = 0.1

_SHORTEST_TRIAL_S = 2.0
"""Short, because the writes of all other partitions wait for a trial."""

_LONGEST_PATIENCE_S = 12.0
"""With a quota, a broker can keep a request waiting for 11 s: ``quota.window.num`` windows of a second by default."""

_LONGEST_TRIAL_S = 30.0
_TRIAL_BYTES_PER_S = 2**20


@dataclass(frozen=True, slots=True)
class RefusedBatches:
    """Batches that the broker refuses, which does not show which of their records it refuses, and why."""

    too_large: Sequence[int]
    """Indexes of the records whose batch was too large."""

    invalid: Sequence[int]
    """Indexes of the records whose batch was refused for another reason."""

    reason: str

    @classmethod
    def of(cls, failures: Failures) -> RefusedBatches | None:
        """Return the batches of failures; ``None`` if there are none, or of one record, whose error is its own."""
        unclear = [(index, error) for index, error in failures if error.code() in UNCLEAR]
        if len(unclear) < 2:  # noqa: PLR2004
            return None
        return cls(
            [index for index, error in unclear if error.code() in TOO_LARGE],
            [index for index, error in unclear if error.code() not in TOO_LARGE],
            f"{len(unclear)} records were in batches that Kafka refuses: {unclear[0][1].str()}",
        )


class DeliveryReports:
    """Collects the failed deliveries of one write after the other.

    The callbacks, one per index, are used again by the next write: creating one per record takes as long as producing
    the record. After a failed write the client may still call them, so the next write needs a new object.
    """

    def __init__(self) -> None:
        self.failures: Failures = []
        self._callbacks: list[Callable[[KafkaError | None, object], None]] = []

    def callbacks(self, number: int) -> Sequence[Callable[[KafkaError | None, object], None]]:
        """Return at least ``number`` callbacks, in the order of the indexes."""
        self._callbacks += [partial(self._report, index) for index in range(len(self._callbacks), number)]
        return self._callbacks

    def _report(self, index: int, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.failures.append((index, error))


def produce(
    producer: Producer, records: Sequence[ProducerRecord], reports: DeliveryReports, timestamp_ms: int = 0
) -> None:
    """Put all records into the client's queue. ``reports`` gets those that the client refuses now or reports later.

    If the transaction has failed meanwhile, the rest is left out, and the commit raises the cause.

    ``timestamp_ms`` (epoch) is the timestamp of every record; 0 means the time of the call.
    """
    produce_one = producer.produce
    callbacks = reports.callbacks(len(records))
    for (topic, partition, key, value, headers), callback in zip(records, callbacks, strict=False):
        number = -1 if partition is None else partition
        while True:
            try:
                # Positional arguments take half the time: ``callback``, ``on_delivery``, ``timestamp``, ``headers``.
                produce_one(topic, value, key, number, callback, None, timestamp_ms, headers or None)  # type: ignore[arg-type] # a list of str is not wanted, only read
            except BufferError:
                producer.poll(0.1)
                continue
            except KafkaException as exception:
                error = exception.args[0]
                if error.code() == KafkaError._STATE:  # noqa: SLF001 - the client's own name
                    return
                if error.code() not in REFUSALS | UNKNOWN_TOPIC:
                    raise
                callback(error, None)
            break
    producer.poll(0)


def await_answers(
    producer: Producer,
    records: Sequence[ProducerRecord],
    failures: Failures,
    timeout_s: float,
    unwritable: Unwritable,
    *,
    until_failure: bool = False,
) -> Mapping[int, KafkaError]:
    """Wait until the broker has answered for each record.

    Args:
        producer: the producer.
        records: the records of the write.
        failures: receives those that are not delivered.
        timeout_s: how long to wait at most.
        unwritable: says which records cannot be written, for which there is no answer.
        until_failure: wait at most a second after the first failed delivery. If the broker refuses a batch of a
            transaction, the client cannot finish the batches in flight behind it before the transaction is aborted. A
            commit would wait for them until its time-out.

    Returns:
        what ``unwritable`` has returned; empty if it was not asked. If it is not empty, some other records may not be
        answered either: a record may have been written before it could not be any more.

    Raises:
        KafkaException: there was not an answer for each record in ``timeout_s`` seconds; with ``until_failure`` also if
            a record cannot be written.
    """
    began = time.monotonic()
    deadline = began + timeout_s
    ask_after_s = _ASK_AFTER_S
    found: Mapping[int, KafkaError] = {}
    while True:
        left = producer.flush(_FLUSH_S)
        if found:
            left -= len(found.keys() - {index for index, _ in failures})
        now = time.monotonic()
        if left <= 0 or (now >= deadline and failures and until_failure):
            return found
        if now >= deadline:
            reason = f"the broker did not confirm {left} of {len(records)} records in {timeout_s:.0f} s"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))  # noqa: SLF001 - the client's own name
        if failures and until_failure:
            deadline = min(deadline, now + _AFTER_FAILURE_S)
        elif not found and now >= began + ask_after_s:
            ask_after_s *= 2
            found = unwritable(records)
            if found and until_failure:
                raise KafkaException(next(iter(found.values())))


def is_refused(failures: Failures) -> bool:
    """Whether one of the failures is a refusal, or is that of a topic which the client does not know."""
    return any(error.code() in REFUSALS | UNKNOWN_TOPIC for _, error in failures)


def refusal_of(
    failures: Failures, codes: Container[int] = REFUSALS, *, transactional: bool = True
) -> WriteRefusedError | None:
    """Return an error that names the refused records; ``None`` if none of the failures is a refusal.

    Args:
        failures: the records that were not delivered; see :func:`confirmed`.
        codes: the errors that count as refusals.
        transactional: whether the other records of the write are not written either.
    """
    refused = [_refused(index, error) for index, error in failures if error.code() in codes]
    written = not transactional and len(refused) == len(failures)
    return WriteRefusedError(refused, others_written=written) if refused else None


def confirmed(
    failures: Failures,
    records: Sequence[ProducerRecord],
    unwritable: Mapping[int, KafkaError],
    partition_counts: Mapping[str, int],
) -> Failures:
    """Return the failures of a write with what the brokers say about its topics.

    All records that cannot be written have failed. Where only the client does not know a topic or a
    partition, its metadata is outdated: the error becomes one that refuses no record.

    Args:
        failures: the records that were not delivered.
        records: all records of the write.
        unwritable: the indexes of the records that cannot be written, and the causes.
        partition_counts: the numbers of partitions of topics that exist.
    """
    denied = {records[index].topic for index, error in failures if error.code() == FORBIDDEN}
    causes = {index: KafkaError(FORBIDDEN) for index, record in enumerate(records) if record.topic in denied}
    causes |= unwritable
    outdated = KafkaError(KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - the client's own name
    others = [
        (index, outdated if _is_unconfirmed(error.code(), records[index], partition_counts) else error)
        for index, error in failures
        if index not in causes
    ]
    return others + sorted(causes.items(), key=itemgetter(0))


def _is_unconfirmed(code: int, record: ProducerRecord, partition_counts: Mapping[str, int]) -> bool:
    """Whether an error says that a record has no topic, partition or leader, but the brokers do not."""
    if code == _UNKNOWN_PARTITION:
        count = partition_counts.get(record.topic)
        return count is None or (record.partition or 0) < count
    return code in UNKNOWN_TOPIC | _OFFLINE


def trial_timeout_s(record: ProducerRecord, pause_s: float) -> float:
    """Return how long a trial waits for the answer to its record.

    Args:
        record: the record; a large one takes time to send.
        pause_s: the pause since the last trial. Trials without an answer have longer and longer pauses.
    """
    patience_s = max(_SHORTEST_TRIAL_S, min(pause_s, _LONGEST_PATIENCE_S))
    return min(_LONGEST_TRIAL_S, patience_s + len(record.value or b"") / _TRIAL_BYTES_PER_S)


def suspects(refused: Sequence[RefusedRecord], records: Sequence[ProducerRecord]) -> list[int]:
    """Return the indexes of the records that may be refused like some that are; empty if no others may.

    They are as large as one that is refused for its size, or go to a topic that refuses the time. A transaction is
    aborted at the first record that is refused, so it does not show whether there are more.
    """
    least: dict[str, int] = {}
    for each in refused:
        record = records[each.index]
        if each.cause is RefusalCause.CLOCK:
            least[record.topic] = 0
        elif each.cause is RefusalCause.TOO_LARGE:
            least[record.topic] = min(size_of(record), least.get(record.topic, size_of(record)))
    found = [index for index, each in enumerate(records) if each.topic in least and size_of(each) >= least[each.topic]]
    return found if len(found) > len(refused) else []


def size_of(record: ProducerRecord) -> int:
    """Return the bytes of key, value and headers."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers or ())
    return len(record.key or b"") + len(record.value or b"") + headers


def find_refused(
    producer: Producer, records: Sequence[ProducerRecord], candidates: Sequence[int], timeout_s: float
) -> list[RefusedRecord]:
    """Produce each candidate alone, in transactions that are always aborted, and return those that are refused.

    If a topic refuses the time, all its records are among these, also those that are no candidates.

    Args:
        producer: a transactional producer without an open transaction.
        records: the records of the write.
        candidates: indexes of ``records``.
        timeout_s: for each call, and for the search: then it ends if some are found.

    Raises:
        KafkaException, WriteAbortedError: the broker did not answer, or with an error that refuses no record.
    """
    refused: list[RefusedRecord] = []
    until_s = time.monotonic() + timeout_s
    left = list(candidates)
    attempts = _ATTEMPTS_PER_RECORD * len(candidates)
    while left and not (refused and time.monotonic() >= until_s):
        attempts -= 1
        if attempts < 0:
            raise WriteAbortedError(f"{len(left)} of {len(candidates)} records could not be produced alone")
        reports = DeliveryReports()
        failures = reports.failures
        producer.begin_transaction()
        ends_s = time.monotonic() + _SEARCH_S
        while left and not failures and time.monotonic() < ends_s:
            produce(producer, [records[left[0]]], reports)
            if producer.flush(timeout_s) > 0:
                raise WriteAbortedError(f"the broker did not answer in {timeout_s:.0f} s")
            if not failures or failures[0][1].code() in UNCLEAR:
                alike, left = split_alike(failures, records, left)
                refused += [_refused(index, error) for index in alike for _, error in failures]
        producer.abort_transaction(timeout_s)
    clocks = {records[each.index].topic: each for each in refused if each.cause is RefusalCause.CLOCK}
    named = {each.index for each in refused}
    others = [index for index, each in enumerate(records) if each.topic in clocks and index not in named]
    return refused + [replace(clocks[records[index].topic], index=index) for index in others]


def split_alike(
    failures: Failures, records: Sequence[ProducerRecord], left: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Split indexes into those about which the attempt to write the first of them decides, and the others.

    It decides about the first alone, or about all records of its topic if that refuses the time, which is the same for
    all of them.

    Args:
        failures: those of the attempt; empty if it succeeded.
        records: the records of the write.
        left: indexes of ``records``.
    """
    if not any(error.code() == KafkaError.INVALID_TIMESTAMP for _, error in failures):
        return [left[0]], list(left[1:])
    topic = records[left[0]].topic
    return (
        [index for index in left if records[index].topic == topic],
        [index for index in left if records[index].topic != topic],
    )


def _refused(index: int, error: KafkaError) -> RefusedRecord:
    return RefusedRecord(index, error.str(), _CAUSES.get(error.code(), RefusalCause.OTHER))
