"""The writer of the modes without transactions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.write_rights import WriteRights
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients.bounded_waits import wait_until
from kafka_redelivery.transport.clients.delivery import (
    ASK,
    TOO_LARGE,
    UNCLEAR,
    DeliveryReports,
    Failures,
    RefusedBatches,
    await_answers,
    confirmed,
    produce,
    refusal_of,
    split_alike,
    trial_timeout_s,
)
from kafka_redelivery.transport.clients.producer_settings import best, fitting, halved, too_large, with_sizes
from kafka_redelivery.transport.errors import (
    ClientSettingsError,
    OffsetsForbiddenError,
    WriteAbortedError,
    WriteRefusedError,
)
from kafka_redelivery.transport.kafka_errors import error_of, is_fatal
from kafka_redelivery.transport.opening import open_producer
from kafka_redelivery.transport.protocols import GroupMember, Partition, ProducerRecord, ReleaseTime, WriteResult

_CALL_TIMEOUT_S = 30.0
_PURGE_TIMEOUT_S = 2.0
"""Long enough for the reports of records that the client has dropped."""


class AutoWriter:
    """At least once: produces the records, waits until they are confirmed, then commits the offsets."""

    def __init__(self, config: Config, group: GroupMember) -> None:
        self._config = config
        self._producer = open_producer(config)
        self._group = group
        self._rights = WriteRights(config)
        self._reports = DeliveryReports()

    def group_metadata(self) -> object:
        """See :class:`Writer`. ``None``: the consumer's own commit contains its membership."""
        return None

    def write(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
        group_metadata: object = None,
    ) -> WriteResult:
        """See :class:`Writer`. Nothing is sent before the release time."""
        del checkpoints, group_metadata
        wait_until(release_time)
        started_s = time.monotonic()
        if records:
            failures = self._deliver(records, _CALL_TIMEOUT_S)
            batches = RefusedBatches.of(failures)
            if batches is not None:
                failures = [failure for failure in failures if failure[1].code() not in UNCLEAR]
                failures += self._deliver_again(records, batches)
            failures = self._deliver_compressed(records, failures)
            if failures:
                unconfirmed = WriteAbortedError(failures[0][1].str(), unconfirmed={index for index, _ in failures})
                raise self._refusal(records, failures, transactional=False) or unconfirmed
        return WriteResult(time.monotonic() - started_s)

    def trial(self, record: ProducerRecord, pause_s: float) -> WriteResult:
        """See :class:`Writer`."""
        # Ask first, because the client waits for a topic or leader that does not exist.
        failures = confirmed([], [record], self._rights.unwritable([record]), {})
        if not failures:
            failures = self._deliver([record], trial_timeout_s(record, pause_s))
            failures = self._deliver_compressed([record], failures)
        if failures:
            raise self._refusal([record], failures) or WriteAbortedError(failures[0][1].str())
        return WriteResult(0.0)

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`Writer`."""
        try:
            self._group.commit(checkpoints)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise WriteAbortedError(str(error), unconfirmed=()) from error
            unreadable = self._rights.unreadable(partition.topic for partition in checkpoints)
            raise OffsetsForbiddenError(str(error), unreadable, unconfirmed=()) from error

    def close(self) -> None:
        """Release the client."""
        self._producer.flush(1.0)

    def _deliver_compressed(self, records: Sequence[ProducerRecord], failures: Failures) -> Failures:
        """Deliver the records that are too large with the best compression, and return the failures of all."""
        large = [index for index, why in failures if why.code() in TOO_LARGE]
        if not large:
            return failures
        usual, self._producer = self._producer, _opened_again(best(self._config))
        try:
            found = self._deliver_alone(records, large, time.monotonic() + _CALL_TIMEOUT_S)
        finally:
            self._producer = usual
        return [failure for failure in failures if failure[1].code() not in TOO_LARGE] + found

    def _refusal(
        self, records: Sequence[ProducerRecord], failures: Failures, *, transactional: bool = True
    ) -> WriteRefusedError | None:
        refusal = refusal_of(failures, transactional=transactional)
        if refusal is None or not too_large(refusal):
            return refusal
        return with_sizes(refusal, records, self._config, self._rights.smallest_limit)

    def _deliver_again(self, records: Sequence[ProducerRecord], refused: RefusedBatches) -> Failures:
        """Deliver the records of refused batches: in batches that fit if those were too large, or each alone."""
        until_s = time.monotonic() + _CALL_TIMEOUT_S
        failures: Failures = []
        alone, smaller = [*refused.too_large, *refused.invalid], None
        if refused.too_large:
            topics = {records[index].topic for index in refused.too_large}
            smaller = fitting(self._config, self._rights.smallest_limit(topics))
        if smaller is not None:
            self._use(smaller)
            failures = self._deliver_part(records, refused.too_large, until_s)
            alone = [index for index, why in failures if why.code() in UNCLEAR] + [*refused.invalid]
            failures = [failure for failure in failures if failure[1].code() not in UNCLEAR]
        found = self._deliver_alone(records, alone, until_s)
        if refused.too_large and smaller is None and not any(why.code() in TOO_LARGE for _, why in found):
            self._use(halved(self._config) or self._config)
        return failures + found

    def _deliver_alone(self, records: Sequence[ProducerRecord], left: Sequence[int], until_s: float) -> Failures:
        failures: Failures = []
        while left:
            found = self._deliver_part(records, left[:1], until_s)
            alike, left = split_alike(found, records, left)
            failures += [(index, why) for index in alike for _, why in found]
        return failures

    def _deliver_part(self, records: Sequence[ProducerRecord], indexes: Sequence[int], until_s: float) -> Failures:
        """Deliver some of the records, until a point in time (monotonic seconds)."""
        timeout_s = until_s - time.monotonic()
        late = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001 - the client's own name
        if timeout_s <= 0:
            return [(index, late) for index in indexes]
        try:
            failures = self._deliver([records[index] for index in indexes], timeout_s)
        except WriteAbortedError as error:
            if error.unconfirmed is None:
                raise
            return [(indexes[index], late) for index in error.unconfirmed]
        return [(indexes[index], why) for index, why in failures]

    def _use(self, config: Config) -> None:
        """Go on with another producer; this one has nothing left to send."""
        self._producer = _opened_again(config)
        self._config = config

    def _deliver(self, records: Sequence[ProducerRecord], timeout_s: float) -> Failures:
        reports, self._reports = self._reports, DeliveryReports()
        failures = reports.failures
        in_queue = False
        try:
            produce(self._producer, records, reports)
            in_queue = True
            unwritable = await_answers(self._producer, records, failures, timeout_s, self._rights.unwritable)
        except (KafkaException, SystemError) as exception:
            error, unconfirmed = error_of(exception), None
            if is_fatal(error):
                self._producer = _opened_again(self._config)
            else:
                self._producer.purge()
                if self._producer.flush(_PURGE_TIMEOUT_S) == 0 and in_queue:
                    unconfirmed = {index for index, _ in failures}
            raise WriteAbortedError(error.str(), unconfirmed=unconfirmed) from exception
        if not (failures or unwritable):
            self._reports = reports
            return failures
        if unwritable:
            self._producer.purge()  # reports the records without an answer; a later one would write them twice
            if self._producer.flush(_PURGE_TIMEOUT_S):
                raise WriteAbortedError("it is unknown which records are written")
        elif any(error.code() in ASK for _, error in failures):
            unwritable = self._rights.unwritable(records)
        failures = confirmed(failures, records, unwritable, self._rights.partition_counts)
        if any(error.code() in ASK for _, error in failures):
            # This client would refuse the topic by itself, for minutes after it can be written again.
            self._producer.purge()
            self._producer = _opened_again(self._config)
        return failures


def _opened_again(config: Config) -> Producer:
    """Open another producer while the process runs.

    Raises:
        WriteAbortedError: a file of a password, certificate or key cannot be used now; the next write tries it again.
    """
    try:
        return open_producer(config)
    except ClientSettingsError as error:
        raise WriteAbortedError(str(error)) from error
