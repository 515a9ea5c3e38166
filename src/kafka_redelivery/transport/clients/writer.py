"""The transactional writer, which turns every error of a write into one of `transport.errors`.

It handles the error of a transaction by these rules, in this order:

1. The producer is fenced, or Kafka has forgotten its ``transactional.id``, which it does only while no transaction of
   it is open: a writer with ``endurance`` goes on with a fresh id, another one stops. With ``endurance`` a fenced
   membership (FENCED_INSTANCE_ID) is not such an error: the reader joins again.
2. Too few replicas are in sync (NOT_ENOUGH_REPLICAS): abort, and replace the producer without waiting for the markers.
3. The error requires an abort: abort; the caller continues from the committed offsets. If the abort is fenced, see
   rule 1. If it fails otherwise, replace the producer as in rule 4.
4. Any other error (time-out, unknown outcome, fatal error): drop the producer and create one with the same
   ``transactional.id``. Its ``init_transactions`` completes or aborts the open transaction and fences the old epoch.
   Never abort after a commit that timed out, because the commit may have happened.

A transaction ends only when its marker is written to each of its partitions, and until then its ``transactional.id``
begins no other one. A partition with too few replicas in sync takes no marker. A writer with ``endurance`` goes on with
a fresh id then: at once if it knows, and otherwise when Kafka answers but the take-over does not end for a minute. The
outcome of the old transaction is decided, or its time-out decides it, so the committed offsets say what it was.

The same after several aborted writes in a row. Each of them has ended its transaction by these rules.

If records are refused, the error that rules 2 to 4 raise names them. A record that the client itself refuses causes no
error of the transaction; the writer aborts the transaction and names the record.

A transaction with a topic that may not be written, or that does not exist, fails as a whole before any record is sent,
and its error names no topic; or there is no answer for half a minute, as for a partition without a leader. The writer
asks the brokers which topics and partitions of the write cannot be written, and names all their records. Only the
brokers decide that a topic, partition or leader does not exist: the metadata of the client may be outdated.

The broker refuses a batch as a whole, and the client does not tell which of its records is the cause. Each record of
such batches is produced alone to find those that are refused, and why. So are the others of the write that may be
refused like them: those as large as one that is too large, or to a topic that refuses the time. If batches were too
large, the writer first goes on with batches that fit into the topics, as far as the user may know the limits.

A write with a record that is too large by itself is repeated once by a producer with the best compression.

Each new producer takes the id from the process that has it. Where the group metadata does not fence the older of two
processes (``one_attempt``), a write is never repeated by a new producer: its caller first reads what is written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.write_rights import WriteRights
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients.bounded_waits import BoundedCalls, wait_until
from kafka_redelivery.transport.clients.committed_offsets import offsets_of
from kafka_redelivery.transport.clients.delivery import (
    ASK,
    TOO_FEW_IN_SYNC,
    UNWRITABLE,
    DeliveryReports,
    Failures,
    RefusedBatches,
    await_answers,
    confirmed,
    find_refused,
    is_refused,
    produce,
    refusal_of,
    suspects,
    trial_timeout_s,
)
from kafka_redelivery.transport.clients.owned_producer import OwnedProducer
from kafka_redelivery.transport.clients.producer_settings import best, fitting, halved, too_large, with_sizes
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.errors import (
    MembershipOutdatedError,
    OffsetsForbiddenError,
    WriteAbortedError,
    WriterChangedError,
    WriteRefusedError,
    WriterFencedError,
    grant,
)
from kafka_redelivery.transport.kafka_errors import error_of
from kafka_redelivery.transport.protocols import GroupMember, Partition, ProducerRecord, ReleaseTime, WriteResult

_log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 30.0
_OFFSETS_TIMEOUT_S = 10.0
_TRIALS = 2
"""The client may purge the record of a transaction that follows one with a refused record."""

_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - the client's own name
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.FENCED_INSTANCE_ID,
    }
)

_OUTDATED = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS})


class _Transaction(NamedTuple):
    records: Sequence[ProducerRecord]
    offsets: list[TopicPartition]
    release_time: ReleaseTime | None
    group_metadata: object


_Failure: TypeAlias = WriteAbortedError | WriteRefusedError | WriterFencedError | RefusedBatches


class TransactionalWriter:
    """Exactly once: records and offsets in one transaction, fenced by the group metadata."""

    def __init__(
        self,
        config: Config,
        group: GroupMember | None,
        endurance: Endurance | None = None,
        *,
        topic: str | None = None,
        one_attempt: bool = False,
    ) -> None:
        """Create a producer, which fences the one that had this ``transactional.id`` before.

        Args:
            config: its settings.
            group: whose offsets it writes; ``None`` = none.
            endurance: how it goes on where another writer raises an error.
            topic: see :func:`take_over`.
            one_attempt: whether it raises :class:`WriterChangedError` instead of repeating a write with a new producer.
                It then keeps smaller batches and better compression. For owners without a group: after each error of a
                write, also a refusal, these read what is written before they write again.

        Raises:
            TransportError: the broker does not answer, or does not allow transactions.
        """
        self._endurance = endurance
        self._one_attempt = one_attempt
        self._group = group
        self._calls = BoundedCalls()
        self._rights = WriteRights(config)
        self._reports = DeliveryReports()
        self._owned = OwnedProducer(config, endurance, topic)
        self.reclaims = False
        """Whether it takes its id back if a process has fenced it before its next write, instead of stopping."""

    def group_metadata(self) -> object:
        """See :class:`Writer`."""
        return None if self._group is None else self._group.group_metadata()

    def write(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
        group_metadata: object = None,
    ) -> WriteResult:
        """See :class:`Writer`. Only the commit of the transaction waits for the release time."""
        transaction = _Transaction(records, offsets_of(checkpoints), release_time, group_metadata)
        return self._recovering(partial(self._write_or_find_refused, transaction), records)

    def _recovering(self, write: Callable[[], WriteResult], records: Sequence[ProducerRecord]) -> WriteResult:
        """Make a write. After an error that this producer would meet again, go on with another one."""
        try:
            result = self._compressing(write, records)
        except WriterFencedError as error:
            self._take_fresh_id(error)
            raise
        except WriteAbortedError as error:
            self._owned.aborted(error)
            raise
        self._owned.committed()
        self.reclaims = False
        return result

    def _compressing(self, write: Callable[[], WriteResult], records: Sequence[ProducerRecord]) -> WriteResult:
        """Make a write; repeat it with the best compression if a record of it is too large."""
        try:
            try:
                return write()
            except WriteRefusedError as error:
                if self._owned.compresses_best or not too_large(error):
                    raise
                if self._one_attempt:
                    self._change(best(self._owned.config), str(error))
            with self._owned.compressing_more():
                return write()
        except WriteRefusedError as error:
            raise with_sizes(error, records, self._owned.config, self._rights.smallest_limit) from error

    def _write_or_find_refused(self, transaction: _Transaction) -> WriteResult:
        """Write a transaction: in smaller batches if they have to be, and with a search for the records it refuses."""
        owned, records = self._owned, transaction.records
        while True:
            end = self._write(transaction)
            if isinstance(end, WriteResult):
                return end
            if isinstance(end, WriteRefusedError):
                repeated = too_large(end) and not owned.compresses_best
                others = [] if repeated else suspects(end.refused, records)
                raise (self._refused_alone(records, others) if others else None) or end
            if not isinstance(end, RefusedBatches):
                raise end
            topics = {records[index].topic for index in end.too_large}
            smaller = fitting(owned.config, self._rights.smallest_limit(topics)) if topics else None
            if smaller is None:
                refusal = self._refused_alone(records, [*end.too_large, *end.invalid])
                if refusal is not None:
                    raise refusal
                smaller = halved(owned.config) if topics else None
            if smaller is None:
                raise WriteAbortedError(end.reason)
            self._change(smaller, end.reason)

    def _change(self, config: Config, reason: str) -> None:
        """Go on with other settings.

        Raises:
            WriterChangedError: this is not the same attempt any more.
        """
        self._owned.config = config
        self._owned.replace()
        if self._one_attempt:
            raise WriterChangedError(f"a new producer with other settings is needed: {reason}")

    def trial(self, record: ProducerRecord, pause_s: float) -> WriteResult:
        """See :class:`Writer`. The transaction of the record is always aborted."""
        # Ask first, because the client waits for a topic or leader that does not exist.
        refusal = refusal_of(confirmed([], [record], self._rights.unwritable([record]), {}), UNWRITABLE)
        if refusal is not None:
            raise refusal
        return self._recovering(partial(self._try, record, trial_timeout_s(record, pause_s)), [record])

    def _try(self, record: ProducerRecord, timeout_s: float) -> WriteResult:
        for _ in range(_TRIALS):
            reports = DeliveryReports()
            try:
                self._owned.client.begin_transaction()
                produce(self._owned.client, [record], reports)
                unanswered = self._owned.client.flush(timeout_s)
                self._owned.client.abort_transaction(_CALL_TIMEOUT_S)
            except (KafkaException, SystemError) as exception:
                error: object = self._after(self._error_of(exception), reports.failures, [record])
            else:
                error = self._refusal(reports.failures, [record])
            if isinstance(error, Exception):
                raise error
            if unanswered:
                break
            if not reports.failures:
                return WriteResult(0.0)
        raise WriteAbortedError("the broker did not say whether it accepts the record")

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`Writer`. Does nothing: the transaction has committed the offsets."""

    def close(self) -> None:
        """Release the client; between two writes no transaction is open."""
        self._owned.drop()

    def _refused_alone(self, records: Sequence[ProducerRecord], candidates: Sequence[int]) -> WriteRefusedError | None:
        """Return an error if Kafka refuses some of the candidates by themselves.

        Raises:
            WriteAbortedError, WriterFencedError: it is not known.
        """
        self._owned.replace(one_per_batch=True)
        try:
            refused = find_refused(self._owned.client, records, candidates, _CALL_TIMEOUT_S)
        except (KafkaException, SystemError) as exception:
            cause = self._error_of(exception)
            fenced = self._fenced(cause)
            if fenced is None:
                self._owned.replace()
            raise fenced or WriteAbortedError(cause.str()) from exception
        except WriteAbortedError:
            self._owned.replace()
            raise
        self._owned.replace()
        return WriteRefusedError(refused) if refused else None

    def _write(self, transaction: _Transaction) -> WriteResult | _Failure:
        records, offsets, release_time, group_metadata = transaction
        reports, self._reports = self._reports, DeliveryReports()
        failures = reports.failures
        producer = self._owned.client
        started_s = ready_s = time.monotonic()
        waited_s = 0.0
        try:
            producer.begin_transaction()
            if offsets:
                # The offsets go first: while the broker completes the previous transaction, this call tries again
                # after retry.backoff.ms, but the client's registration of partitions only after 20 ms.
                self._send_offsets(producer, offsets, group_metadata)
            produce(producer, records, reports, 0 if release_time is None else release_time.epoch_ms)
            if failures and is_refused(failures):  # by the client itself, which does not make the transaction abort
                producer.abort_transaction(_CALL_TIMEOUT_S)
                refusal = self._refusal(failures, records)
                return refusal or WriteAbortedError(f"the client refuses a record: {failures[0][1].str()}")
            await_answers(producer, records, failures, _CALL_TIMEOUT_S, self._rights.unwritable, until_failure=True)
            if release_time is not None:
                ready_s = time.monotonic()
                waited_s = wait_until(release_time)
            producer.commit_transaction(_CALL_TIMEOUT_S)  # reports what is left or failed
        except (KafkaException, SystemError) as exception:
            return self._after(self._error_of(exception), failures, records, offsets)
        if not failures:
            self._reports = reports
        return WriteResult(time.monotonic() - started_s - waited_s, ready_s - started_s)

    def _send_offsets(self, producer: Producer, offsets: list[TopicPartition], group_metadata: object) -> None:
        """Add the offsets, on another thread: without a group coordinator the call can hang (librdkafka#5456)."""
        send = partial(producer.send_offsets_to_transaction, offsets, group_metadata, _OFFSETS_TIMEOUT_S)
        try:
            self._calls.make(send, _OFFSETS_TIMEOUT_S + 2)
        except TimeoutError:
            _log.warning("adding offsets to a transaction did not return; creating a new producer")
            self._calls = BoundedCalls()
            self._owned.replace()
            raise WriteAbortedError("a new producer ended the transaction: adding offsets did not return") from None

    def _error_of(self, exception: KafkaException | SystemError) -> KafkaError:
        """Return the error that a call of the producer ended with.

        A delivery report that follows a fatal error within one call can hide it. Every later call raises it again.
        """
        try:
            return error_of(exception)
        except SystemError:
            try:
                self._owned.client.begin_transaction()
            except KafkaException as hidden:
                return error_of(hidden)
            raise

    def _after(
        self,
        error: KafkaError,
        failures: Failures,
        records: Sequence[ProducerRecord],
        offsets: Sequence[TopicPartition] = (),
    ) -> _Failure:
        """Bring the producer back to a known state, and return what the write has ended with."""
        if (fenced := self._fenced(error)) is not None:
            return fenced
        ended, aborted, replaced = "transaction aborted", False, True
        if error.code() == TOO_FEW_IN_SYNC:
            self._leave_transaction()
        elif error.txn_requires_abort():
            aborted, replaced = True, False
            if (fenced := self._abort()) is not None:
                return fenced
        else:
            ended = "a new producer ended the transaction"
            _log.warning("outcome of a transaction unknown; creating a new producer: %s", error)
            self._owned.replace()
        if (refusal := self._refusal(failures, records, error, replaced=replaced)) is not None:
            return refusal
        if aborted and offsets and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            topics = {entry.topic for entry in offsets}
            unreadable = self._rights.unreadable(topics)
            right = grant(f"Read on each of the topics {', '.join(sorted(unreadable or topics))}")
            return OffsetsForbiddenError(f"{ended}, its offsets may not be committed: {error.str()}{right}", unreadable)
        kind = MembershipOutdatedError if aborted and error.code() in _OUTDATED else WriteAbortedError
        return kind(f"{ended}: {error.str()}")

    def _abort(self) -> WriterFencedError | None:
        """Abort the transaction, with another producer if this one cannot; return an error if it is fenced."""
        try:
            self._owned.client.abort_transaction(_CALL_TIMEOUT_S)
        except (KafkaException, SystemError) as exception:
            cause = self._error_of(exception)
            fenced = self._fenced(cause)  # a new producer would take the identity from the process that has it
            if fenced is not None:
                return fenced
            _log.warning("abort of a transaction failed; creating a new producer: %s", cause)
            self._owned.replace()
        return None

    def _refusal(
        self,
        failures: Failures,
        records: Sequence[ProducerRecord],
        error: KafkaError | None = None,
        *,
        replaced: bool = False,
    ) -> WriteRefusedError | RefusedBatches | None:
        """Return what the failures of an ended transaction refuse, after the brokers were asked about its topics."""
        errors = [each for _, each in failures]
        if error is not None:
            errors.append(error)
        unwritable = self._rights.unwritable(records) if any(each.code() in ASK for each in errors) else {}
        failures = confirmed(failures, records, unwritable, self._rights.partition_counts)
        if not replaced and any(each.code() in ASK for _, each in failures):
            self._owned.replace()  # as in AutoWriter
        return refusal_of(failures, UNWRITABLE) or RefusedBatches.of(failures) or refusal_of(failures)

    def _fenced(self, error: KafkaError) -> WriterFencedError | None:
        """Return an error if the producer is fenced, or its id is forgotten."""
        as_member = error.code() == KafkaError.FENCED_INSTANCE_ID
        if error.code() == KafkaError.INVALID_PRODUCER_ID_MAPPING:
            return WriterFencedError(
                f"Kafka has forgotten transactional.id {self._owned.id}, with which nothing was written for its "
                f"transactional.id.expiration.ms, or another process has it since: {error.str()}",
                expired=True,
            )
        if error.code() not in _FENCED or (as_member and self._endurance is not None):  # then its reader joins again
            return None
        fix = ""
        if self._endurance is not None:
            own = self._endurance.instance
            fix = f"; give each process its own 'instance' (this one has instance: {own})"
        return WriterFencedError(
            f"another process took over transactional.id {self._owned.id}, or a transaction was "
            f"open for longer than its transaction.timeout.ms: {error.str()}{fix}",
            as_member=as_member,
        )

    def _take_fresh_id(self, error: WriterFencedError) -> None:
        """Go on with a ``transactional.id`` that no process has, or with the same if this writer reclaims it.

        Raises:
            WriteAbortedError: this writer endures, or has the id back.
        """
        reclaimed = self.reclaims and not error.as_member
        if reclaimed or self._owned.take_fresh_id():
            self.reclaims = False
            self._owned.replace()
            message = f"{error}; this one goes on with transactional.id {self._owned.id}"
            raise WriteAbortedError(message, fenced=not (error.expired or reclaimed)) from error

    def _leave_transaction(self) -> None:
        """Abort a transaction with a partition that takes no marker, and do not wait for its end."""
        with suppress(KafkaException, SystemError):  # else its time-out aborts it
            self._owned.client.abort_transaction(_CALL_TIMEOUT_S)
        self._owned.take_fresh_id()
        self._owned.replace()
