"""What the broker, or the client itself, refuses of produced copies, and whose fault it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer

from transport.errors import Refusal, WriteRefusedError, WriteUndoneError
from transport.protocols import Copy

Failed = list[tuple[int, KafkaError]]
"""Indexes of copies, with what was wrong with them."""

_FOR_GOOD = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the client's own name
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
"""Refusals that writing the same copy again cannot change."""

_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

_TRIES = 3
"""The client may purge a record of a transaction that follows an aborted one."""


class SizeUnclearError(Exception):
    """Batches were refused for their size, which does not tell whose copies are too large.

    ``suspects`` are the indexes of all that were in these batches.
    """

    def __init__(self, suspects: Sequence[int]) -> None:
        super().__init__(f"{len(suspects)} copies were in batches that are too large")
        self.suspects = tuple(suspects)


class Reports:
    """What the client tells of the copies of one write after the other.

    It has a callback for each index, used again by the next write: to make one for each copy takes as long as to hand
    the copy over. After a write that did not end well the client may tell of it still, so the next one takes new ones.
    """

    def __init__(self) -> None:
        self.failed: Failed = []
        """Copies that were refused."""

        self._callbacks: list[Callable[[KafkaError | None, object], None]] = []

    def callbacks(self, number: int) -> Sequence[Callable[[KafkaError | None, object], None]]:
        """One for each index, at least so many."""
        self._callbacks += [partial(self._note, index) for index in range(len(self._callbacks), number)]
        return self._callbacks

    def _note(self, index: int, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.failed.append((index, error))


def produce(producer: Producer, copies: Sequence[Copy], reports: Reports, timestamp_ms: int = 0) -> None:
    """Hand every copy to the client; those refused at once or later are noted in ``reports``.

    ``timestamp_ms`` (epoch) is given to all of them; 0 = the time of the call.
    """
    hand_over = producer.produce
    callbacks = reports.callbacks(len(copies))
    for (topic, partition, key, value, headers), callback in zip(copies, callbacks, strict=False):
        place = -1 if partition is None else partition
        while True:
            try:
                # By position, which takes half the time: ``callback``, ``on_delivery``, ``timestamp``, ``headers``.
                hand_over(topic, value, key, place, callback, None, timestamp_ms, headers)  # type: ignore[arg-type] # a list of str is not wanted, only read
            except BufferError:
                producer.poll(0.1)
                continue
            except KafkaException as exception:
                error = exception.args[0]
                if error.code() not in _FOR_GOOD:
                    raise
                callback(error, None)
            break
    producer.poll(0)


def raise_refused(failed: Failed, *, singly: bool = False) -> None:
    """Raise what the failures mean, if any of them is for good.

    Args:
        failed: what went wrong.
        singly: whether each copy was in a batch of its own.

    Raises:
        WriteRefusedError: names the copies at fault.
        SizeUnclearError: they cannot be named yet.
    """
    suspects = [index for index, error in failed if error.code() in _TOO_LARGE]
    if not singly and len(suspects) > 1:
        raise SizeUnclearError(suspects)
    refusals = [Refusal(index, error.str()) for index, error in failed if error.code() in _FOR_GOOD]
    if refusals:
        raise WriteRefusedError(refusals)


def find_too_large(
    producer: Producer, copies: Sequence[Copy], suspects: Sequence[int], timeout_s: float
) -> list[Refusal]:
    """Those of the suspects that are refused when they are tried alone, in transactions that are always aborted.

    Args:
        producer: a transactional one with no transaction open.
        copies: the write.
        suspects: indexes into it.
        timeout_s: for each call.

    Raises:
        KafkaException, WriteUndoneError: it cannot be found out now.
    """
    refusals: list[Refusal] = []
    left = list(suspects)
    tries = _TRIES * len(suspects)
    while left:
        tries -= 1
        if tries < 0:
            raise WriteUndoneError(f"{len(left)} of {len(suspects)} copies could not be tried alone")
        reports = Reports()
        failed = reports.failed
        producer.begin_transaction()
        while left and not failed:
            produce(producer, [copies[left[0]]], reports)
            if producer.flush(timeout_s) > 0:
                raise WriteUndoneError(f"the broker did not answer in {timeout_s:.0f} s")
            if not failed or failed[0][1].code() in _TOO_LARGE:
                refusals += [Refusal(left[0], error.str()) for _, error in failed]
                left.pop(0)
        producer.abort_transaction(timeout_s)
    return refusals
