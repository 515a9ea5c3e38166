"""The owner of produced copies and transactions: all that can go wrong with a write ends here.

The rules for transactional errors, in the order they are tried:

* a copy is refused for good: abort, name the refused ones;
* the producer is fenced: stop;
* abortable: abort, and let the caller go back to the committed offsets;
* everything else (time-out, unknown outcome, fatal): throw the producer away and make a new one with
  the same ``transactional.id``. Its ``init_transactions`` finishes or aborts the old transaction and
  fences the old epoch. Never abort after a commit that timed out: it may have happened.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from topology.progress import Checkpoint
from transport.client_config import Config, client_log
from transport.errors import Refusal, TransportError, WriteRefusedError, WriterFencedError, WriteUndoneError
from transport.protocols import Copy, Group, Partition

_log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 30.0
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
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
"""Refusals that writing the same copy again cannot change."""


class AutoWriter:
    """At least once: copies are confirmed first, then the offsets are committed."""

    def __init__(self, config: Config, group: Group) -> None:
        self._producer = Producer(config, logger=client_log)
        self._group = group

    def write(self, copies: Sequence[Copy], checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`transport.protocols.Writer`."""
        if copies:
            failed: list[tuple[int, KafkaError]] = []
            _produce(self._producer, copies, failed)
            if self._producer.flush(_CALL_TIMEOUT_S) > 0:
                self._producer.purge()
                raise WriteUndoneError(f"the broker did not confirm {len(copies)} copies in {_CALL_TIMEOUT_S:.0f} s")
            _raise_refused(failed)
            if failed:
                raise WriteUndoneError(failed[0][1].str())
        try:
            self._group.commit(checkpoints)
        except KafkaException as error:
            raise WriteUndoneError(str(error)) from error

    def close(self) -> None:
        """Release the client."""
        self._producer.flush(1.0)


class TransactedWriter:
    """Exactly once: copies and offsets in one transaction, fenced by the group's metadata."""

    def __init__(self, config: Config, group: Group) -> None:
        """Take the identity over.

        Raises:
            TransportError: the broker does not answer, or does not allow transactions.
        """
        self._config = config
        self._group = group
        self._producer = self._take_over()

    def write(self, copies: Sequence[Copy], checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`transport.protocols.Writer`."""
        offsets = [
            TopicPartition(place.topic, place.number, point.offset, metadata=point.metadata)
            for place, point in checkpoints.items()
        ]
        failed: list[tuple[int, KafkaError]] = []
        producer = self._producer
        try:
            producer.begin_transaction()
            _produce(producer, copies, failed)
            if failed:  # refused at once by the client itself, which does not spoil the transaction: we do
                producer.abort_transaction(_CALL_TIMEOUT_S)
                _raise_refused(failed)
            if offsets:
                producer.send_offsets_to_transaction(offsets, self._group.group_metadata(), _CALL_TIMEOUT_S)
            producer.commit_transaction(_CALL_TIMEOUT_S)
        except KafkaException as exception:
            self._settle(exception.args[0], failed)

    def close(self) -> None:
        """Release the client; between two writes no transaction is open."""
        self._discard()

    def _settle(self, error: KafkaError, failed: list[tuple[int, KafkaError]]) -> None:
        """Bring the producer back to a known state; always raises."""
        if error.code() in _FENCED:
            raise WriterFencedError(
                f"another process took over transactional.id {self._config['transactional.id']}: {error.str()}"
            )
        if error.txn_requires_abort():
            try:
                self._producer.abort_transaction(_CALL_TIMEOUT_S)
            except KafkaException as exception:
                _log.warning("abort failed, starting a new producer: %s", exception)
                self._replace()
            _raise_refused(failed)
            raise WriteUndoneError(f"transaction aborted: {error.str()}")
        _log.warning("outcome of a transaction unknown, starting a new producer: %s", error)
        self._replace()
        _raise_refused(failed)
        raise WriteUndoneError(f"transaction settled by a new producer: {error.str()}")

    def _replace(self) -> None:
        self._discard()
        self._producer = self._take_over()

    def _discard(self) -> None:
        """Let go of the client without touching its transaction."""
        self._producer.purge()
        self._producer.poll(0)
        del self._producer

    def _take_over(self) -> Producer:
        producer = Producer(self._config, logger=client_log)
        try:
            producer.init_transactions(_INIT_TIMEOUT_S)
        except KafkaException as exception:
            error = exception.args[0]
            message = f"cannot take over transactional.id {self._config['transactional.id']}: {error.str()}"
            raise TransportError(message) from exception
        return producer


def _produce(producer: Producer, copies: Sequence[Copy], failed: list[tuple[int, KafkaError]]) -> None:
    """Hand every copy to the client; those refused at once or later are noted in ``failed``."""

    def report(index: int, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failed.append((index, error))

    for index, (topic, partition, key, value, headers) in enumerate(copies):
        place = -1 if partition is None else partition
        while True:
            try:
                producer.produce(topic, value, key, place, on_delivery=partial(report, index), headers=headers)  # type: ignore[arg-type] # a list of str is not wanted, only read
            except BufferError:
                producer.poll(0.1)
                continue
            except KafkaException as exception:
                error = exception.args[0]
                if error.code() not in _FOR_GOOD:
                    raise
                failed.append((index, error))
            break
    producer.poll(0)


def _raise_refused(failed: Sequence[tuple[int, KafkaError]]) -> None:
    refusals = [Refusal(index, error.str()) for index, error in failed if error.code() in _FOR_GOOD]
    if refusals:
        raise WriteRefusedError(refusals)
