"""The owner of produced copies and transactions: all that can go wrong with a write ends here.

The rules for transactional errors, in the order they are tried:

* a copy is refused for good: abort, name the refused ones;
* the producer is fenced: stop;
* abortable: abort, and let the caller go back to the committed offsets; if the abort is fenced, stop;
* everything else (time-out, unknown outcome, fatal): throw the producer away and make a new one with
  the same ``transactional.id``. Its ``init_transactions`` finishes or aborts the old transaction and
  fences the old epoch. Never abort after a commit that timed out: it may have happened.

The broker measures a batch of the client's as a whole, and refuses all its records alike. So when more
than one copy is refused for its size, each is tried in a batch of its own, which tells.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from topology.progress import Checkpoint
from transport.bounded_calls import BoundedCalls
from transport.client_config import Config
from transport.client_error import client_error
from transport.client_log import client_log
from transport.errors import (
    MembershipOutdatedError,
    TransportError,
    WriteRefusedError,
    WriterFencedError,
    WriteUndoneError,
)
from transport.protocols import Copy, Due, Group, Partition, Written
from transport.refusals import Failed, Reports, SizeUnclearError, find_too_large, produce, raise_refused

_log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 30.0
_OFFSETS_TIMEOUT_S = 10.0
_INIT_TIMEOUT_S = 90.0
"""A predecessor's open transaction is waited for: its time-out plus the broker's scan of 10 s."""

_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - the client's own name
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.FENCED_INSTANCE_ID,
    }
)

_OUTDATED = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS})

_SINGLY: Config = {"batch.num.messages": 1, "max.in.flight.requests.per.connection": 1, "linger.ms": 0}
"""Each record in a batch of its own, none sent before the one ahead of it is answered."""


class _Transaction(NamedTuple):
    """What a transaction is made of."""

    copies: Sequence[Copy]
    offsets: list[TopicPartition]
    due: Due | None
    member: object


def _offsets(checkpoints: Mapping[Partition, Checkpoint]) -> list[TopicPartition]:
    return [
        TopicPartition(place.topic, place.number, point.offset, metadata=point.metadata)
        for place, point in checkpoints.items()
    ]


def _wait_for(due: Due | None) -> float:
    """Wait until then; how long that was."""
    left_s = 0.0 if due is None else due.monotonic_s - time.monotonic()
    if left_s <= 0:
        return 0.0
    time.sleep(left_s)  # noqa: TID251 - a few ms; until then nothing else is to be done on this thread
    return left_s


class AutoWriter:
    """At least once: copies are confirmed first, then the offsets are committed."""

    def __init__(self, config: Config, group: Group) -> None:
        self._producer = Producer(config, logger=client_log)
        self._group = group
        self._reports = Reports()

    def member(self) -> object:
        """See :class:`transport.protocols.Writer`; the commit of a consumer carries its membership by itself."""
        return None

    def write(
        self,
        copies: Sequence[Copy],
        checkpoints: Mapping[Partition, Checkpoint],
        due: Due | None = None,
        member: object = None,
    ) -> Written:
        """See :class:`transport.protocols.Writer`; what is due later is not even sent before."""
        del checkpoints, member
        _wait_for(due)
        started_s = time.monotonic()
        if copies:
            failed = self._confirm(copies)
            try:
                raise_refused(failed)
            except SizeUnclearError as error:
                failed = [entry for entry in failed if entry[0] not in error.suspects]
                failed += [(index, why) for index in error.suspects for _, why in self._confirm([copies[index]])]
                raise_refused(failed, singly=True)
            if failed:
                raise WriteUndoneError(failed[0][1].str())
        return Written(time.monotonic() - started_s)

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`transport.protocols.Writer`."""
        try:
            self._group.commit(checkpoints)
        except KafkaException as error:
            raise WriteUndoneError(str(error), copied=True) from error

    def close(self) -> None:
        """Release the client."""
        self._producer.flush(1.0)

    def _confirm(self, copies: Sequence[Copy]) -> Failed:
        reports, self._reports = self._reports, Reports()
        produce(self._producer, copies, reports)
        if self._producer.flush(_CALL_TIMEOUT_S) > 0:
            self._producer.purge()
            raise WriteUndoneError(f"the broker did not confirm {len(copies)} copies in {_CALL_TIMEOUT_S:.0f} s")
        if not reports.failed:
            self._reports = reports
        return reports.failed


class TransactedWriter:
    """Exactly once: copies and offsets in one transaction, fenced by the group's metadata."""

    def __init__(self, config: Config, group: Group) -> None:
        """Take the identity over.

        Raises:
            TransportError: the broker does not answer, or does not allow transactions.
        """
        self._config = config
        self._group = group
        self._calls = BoundedCalls()
        self._singly = False
        self._reports = Reports()
        self._producer = self._take_over()

    def member(self) -> object:
        """See :class:`transport.protocols.Writer`."""
        return self._group.group_metadata()

    def write(
        self,
        copies: Sequence[Copy],
        checkpoints: Mapping[Partition, Checkpoint],
        due: Due | None = None,
        member: object = None,
    ) -> Written:
        """See :class:`transport.protocols.Writer`; all but the end of the transaction is done before it is due."""
        transaction = _Transaction(copies, _offsets(checkpoints), due, member)
        try:
            written = self._write(transaction)
        except SizeUnclearError as error:
            self._replace(singly=True)
            try:
                written = self._write_singly(transaction, error.suspects)
            except (WriteRefusedError, WriteUndoneError):
                self._replace()
                raise
            self._replace()
        return written

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`transport.protocols.Writer`; the transaction has committed them."""

    def _write_singly(self, transaction: _Transaction, suspects: Sequence[int]) -> Written:
        """Find out which copies are too large; if none is, write."""
        try:
            refusals = find_too_large(self._producer, transaction.copies, suspects, _CALL_TIMEOUT_S)
        except (KafkaException, SystemError) as exception:
            cause = client_error(exception)
            self._raise_fenced(cause)
            raise WriteUndoneError(cause.str()) from exception
        if refusals:
            raise WriteRefusedError(refusals)
        return self._write(transaction)

    def _write(self, transaction: _Transaction) -> Written:
        copies, offsets, due, member = transaction
        reports, self._reports = self._reports, Reports()
        failed = reports.failed
        producer = self._producer
        started_s = ready_s = time.monotonic()
        held_s = 0.0
        try:
            producer.begin_transaction()
            if offsets:
                # First, since while the last transaction is being ended this call asks again after
                # retry.backoff.ms, but the client's own registration of partitions only after 20 ms.
                self._send_offsets(producer, offsets, member)
            produce(producer, copies, reports, 0 if due is None else due.epoch_ms)
            if failed:  # refused at once by the client itself, which does not spoil the transaction: we do
                producer.abort_transaction(_CALL_TIMEOUT_S)
                raise_refused(failed, singly=self._singly)
            if due is not None:
                producer.flush(_CALL_TIMEOUT_S)  # what is left of it, or wrong with it, is the commit's to say
                ready_s = time.monotonic()
                held_s = _wait_for(due)
            producer.commit_transaction(_CALL_TIMEOUT_S)
        except (KafkaException, SystemError) as exception:
            self._settle(client_error(exception), failed)
        if not failed:
            self._reports = reports
        return Written(time.monotonic() - started_s - held_s, ready_s - started_s)

    def close(self) -> None:
        """Release the client; between two writes no transaction is open."""
        if hasattr(self, "_producer"):  # else taking over failed, which is being reported
            self._discard()

    def _send_offsets(self, producer: Producer, offsets: list[TopicPartition], member: object) -> None:
        """Do not trust this call's own time-out: with the group's coordinator gone it can hang (librdkafka#5456)."""
        send = partial(producer.send_offsets_to_transaction, offsets, member, _OFFSETS_TIMEOUT_S)
        try:
            self._calls.make(send, _OFFSETS_TIMEOUT_S + 2)
        except TimeoutError:
            _log.warning("offsets could not be added to a transaction, starting a new producer")
            self._calls = BoundedCalls()
            self._replace()
            raise WriteUndoneError("transaction settled by a new producer: a call did not return") from None

    def _settle(self, error: KafkaError, failed: Failed) -> None:
        """Bring the producer back to a known state; always raises."""
        self._raise_fenced(error)
        if error.txn_requires_abort():
            try:
                self._producer.abort_transaction(_CALL_TIMEOUT_S)
            except (KafkaException, SystemError) as exception:
                cause = client_error(exception)
                self._raise_fenced(cause)  # a new producer would take the identity from the process that has it
                _log.warning("abort failed, starting a new producer: %s", cause)
                self._replace(singly=self._singly)
            raise_refused(failed, singly=self._singly)
            kind = MembershipOutdatedError if error.code() in _OUTDATED else WriteUndoneError
            raise kind(f"transaction aborted: {error.str()}")
        _log.warning("outcome of a transaction unknown, starting a new producer: %s", error)
        self._replace(singly=self._singly)
        raise_refused(failed, singly=self._singly)
        raise WriteUndoneError(f"transaction settled by a new producer: {error.str()}")

    def _raise_fenced(self, error: KafkaError) -> None:
        if error.code() in _FENCED:
            raise WriterFencedError(
                f"another process took over transactional.id {self._config['transactional.id']}, or this one stood "
                f"still for longer than its transaction.timeout.ms: {error.str()}",
                as_member=error.code() == KafkaError.FENCED_INSTANCE_ID,
            )

    def _replace(self, *, singly: bool = False) -> None:
        self._singly = singly
        self._discard()
        self._producer = self._take_over()

    def _discard(self) -> None:
        """Let go of the client without touching its transaction."""
        with suppress(KafkaException, SystemError):  # a fatal error is raised again by whatever is called next
            self._producer.purge()
            self._producer.poll(0)
        del self._producer

    def _take_over(self) -> Producer:
        config = self._config | _SINGLY if self._singly else self._config
        producer = Producer(config, logger=client_log)
        try:
            producer.init_transactions(_INIT_TIMEOUT_S)
        except KafkaException as exception:
            error = exception.args[0]
            message = f"cannot take over transactional.id {self._config['transactional.id']}: {error.str()}"
            raise TransportError(message) from exception
        return producer
