"""Reads and writes the control topic of a group, and follows the pauses in it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer

from kafka_redelivery.topology.wire.control import (
    ControlRecord,
    ControlState,
    control_state,
    first_offset_record,
    former_record,
    saved_record,
    unstarted_record,
)
from kafka_redelivery.topology.wire.pauses import Pauses
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.topic_mark import is_other_topic
from kafka_redelivery.transport.admin.calls import admin_error
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.assigned_reader import UNCOMMITTED, AssignedReader, ReadBatch
from kafka_redelivery.transport.client_config import IDLE_FETCH, SMALL_PREFETCH, ConfigValue, producer_config
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.errors import ClientSettingsError, ReaderError, TopicForbiddenError
from kafka_redelivery.transport.kafka_errors import is_denied, is_transient_for_consumer
from kafka_redelivery.transport.opening import open_producer
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_TIMEOUT_S = 60.0
_METADATA_TIMEOUT_S = 10.0
_POLL_S = 0.2
_FLUSH_S = 20.0
_SAVE_S = 2.0
_CLOSE_S = 1.0
_READ_INTERVAL_S = 1.0
_NOTE_AGAIN_S = 60.0


class ControlTopic:
    """What a running process knows of the control topic, and notes in it. Only its polling thread uses it."""

    def __init__(
        self,
        kafka: Mapping[str, ConfigValue],
        group: str,
        topic: str,
        clock: Callable[[], int],
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """Keep the arguments; nothing is known before the first :meth:`read`.

        Args:
            kafka: the client settings.
            group: the consumer group.
            topic: its control topic.
            clock: returns epoch ms.
            timeout_s: the time limit of each :meth:`read`.
        """
        self.state = ControlState()
        """What is known: the result of the last :meth:`read`, and what was noted since then."""

        self._kafka = kafka
        self._group = group
        self._topic = topic
        self._clock = clock
        self._timeout_s = timeout_s
        self._marks: dict[tuple[str, int] | str, str] = {}
        """The mark of the topic of each partition that this process reads, as it was when it was opened."""

        self._void: dict[tuple[str, int], int] = {}
        """Partitions in which the group had this offset, in an older topic of that name."""

        self._former_noted: set[tuple[str, int]] = set()
        """Partitions of which the topic says so."""

        self._producer: Producer | None = None
        self._sent: set[Partition] = set()
        self._read_again_s = self._note_again_s = 0.0

    def read(self) -> ControlState:
        """Read the topic to its end, at most once a second. Without a topic nothing is known.

        Raises:
            ReaderError: Kafka does not answer, or refuses.
            ControlRecordError: another program has written to the topic.
        """
        if time.monotonic() >= self._read_again_s:
            self.state = self._present(read_control(self._kafka, self._group, self._topic, self._timeout_s))
            self._read_again_s = time.monotonic() + _READ_INTERVAL_S
        return self.state

    def know(self, marks: Mapping[Partition, str], former: Mapping[Partition, int]) -> None:
        """Drop what is known of older topics of these names, now and whenever the topic is read again.

        Args:
            marks: the mark of the topic of each partition that the process reads; empty if it is unknown. It goes with
                what is noted.
            former: partitions whose committed offset belongs to an older topic, each with that offset.
        """
        self._marks.update({(each.topic, each.number): mark for each, mark in marks.items()})
        self._void.update({(each.topic, each.number): offset for each, offset in former.items()})
        self.state = self.state.of_topics(self._marks, self._void)

    def _present(self, state: ControlState) -> ControlState:
        """Return what is about the present topics."""
        self._former_noted = set(state.former)
        return state.of_topics(self._marks, self._void)

    def note_first_offset(self, partition: Partition, offset: int) -> None:
        """Note that the group has committed an offset in a partition. Does not wait for Kafka.

        If Kafka refuses, or no client can be opened, a later call tries again, after a minute at the earliest.
        """
        producer = self._opened()
        if producer is None:
            return
        if partition not in self._sent:
            self._sent.add(partition)
            mark, former = self._marks.get(partition, ""), self.state.former.get(partition)
            record = first_offset_record(*partition, offset, self._clock(), mark)
            done = partial(self._noted, partition, offset, mark)
            try:
                if former is not None and partition not in self._former_noted:
                    self._former_noted.add(partition)
                    noted = former_record(*partition, former, self._clock())
                    producer.produce(self._topic, noted.value, noted.key, 0)
                producer.produce(self._topic, record.value, record.key, 0, on_delivery=done)
            except KafkaException as exception:  # the client knows already that it may not write
                done(exception.args[0], None)
        producer.poll(0)

    def note_unstarted(self, partition: Partition, since_ms: int) -> None:
        """Note since when (epoch ms) it is unknown where a partition starts. Does not wait for Kafka.

        Without it, the next member that is assigned the partition believes that this begins with itself.
        """
        producer = self._opened()
        if producer is not None:
            record = unstarted_record(*partition, since_ms)
            with suppress(KafkaException):  # as above
                producer.produce(self._topic, record.value, record.key, 0)
                self.state = replace(self.state, unstarted={**self.state.unstarted, partition: since_ms})

    def _opened(self) -> Producer | None:
        """Return the client that notes; ``None`` if there is none now."""
        if time.monotonic() < self._note_again_s:
            return None
        if self._producer is None:
            try:
                self._producer = _producer(self._kafka)
            except ClientSettingsError as error:
                self._note_again_s = time.monotonic() + _NOTE_AGAIN_S
                _log.warning("first offsets cannot be noted now: %s", error)
        return self._producer

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Read the topic to its end, and drop the saved positions of partitions that have a committed offset.

        Call it before these partitions are read: a saved position must never be older than the last commit.

        Raises:
            ReaderError, ControlRecordError: as :meth:`read`; also if Kafka does not take the records.
        """
        self._read_again_s = 0.0
        self.read()
        self._drop(partitions)

    def problem(self) -> str | None:
        """Return why what is known may be older than the last :meth:`begin`; ``None`` = it is not."""
        return None

    def _drop(self, partitions: Iterable[Partition], timeout_s: float = _FLUSH_S) -> None:
        """Drop the saved positions of partitions.

        Raises:
            ReaderError: Kafka does not take the records.
        """
        saved = self.state.saved
        used = [partition for partition in partitions if partition in saved]
        if used:
            records = [
                first_offset_record(*partition, saved[partition].offset, self._clock(), self._marks.get(partition, ""))
                for partition in used
            ]
            try:
                append_control(self._kafka, self._topic, records, timeout_s)
            except (AdminError, ClientSettingsError) as error:
                raise ReaderError(f"the saved positions cannot be dropped: {error}") from error
            self.state = replace(self.state, saved={each: saved[each] for each in saved.keys() - set(used)})

    def save(self, positions: Mapping[Partition, Checkpoint]) -> None:
        """Save the last committed positions of partitions that this process gives up because it stops."""
        if not positions:
            return
        if not self.state.cluster:
            _log.warning("the last positions are not saved: topic %s was never read", self._topic)
            return
        records = [
            saved_record(*partition, last, self.state.cluster, self._clock(), self._marks.get(partition, ""))
            for partition, last in positions.items()
        ]
        try:
            append_control(self._kafka, self._topic, records, _SAVE_S)
        except (AdminError, ClientSettingsError) as error:
            _log.warning("the last positions are not saved: %s", error)

    def _noted(self, partition: Partition, offset: int, mark: str, error: KafkaError | None, _: Message | None) -> None:
        self._sent.discard(partition)
        if error is None:
            self._void.pop(partition, None)
            saved = {each: last for each, last in self.state.saved.items() if each != partition}
            committed, marks = {**self.state.committed, partition: offset}, {**self.state.marks, partition: mark}
            self.state = replace(self.state, committed=committed, marks=marks, saved=saved)
        else:
            self._note_again_s = time.monotonic() + _NOTE_AGAIN_S
            reason = admin_error(f"write to {self._topic}", error, f"Write on topic {self._topic}")
            _log.warning("%s-%d cannot be noted now: %s", *partition, reason)

    def close(self, within_s: float = _CLOSE_S) -> None:
        """Release the client. What was noted and is not confirmed yet is waited for, for at most ``within_s``."""
        if self._producer is not None:
            self._producer.flush(within_s)


def read_control(
    kafka: Mapping[str, ConfigValue], group: str, topic: str, timeout_s: float = _TIMEOUT_S
) -> ControlState:
    """Read a control topic to its end. One that may not be read is as one that does not exist; a warning says so.

    Raises:
        ReaderError: Kafka does not answer, or refuses.
        ControlRecordError: another program has written to the topic.
    """
    try:
        return read_permitted(kafka, group, topic, timeout_s)
    except TopicForbiddenError as error:
        _log.warning("it is as if there was no control topic: %s", error)
        return ControlState()


def read_permitted(
    kafka: Mapping[str, ConfigValue], group: str, topic: str, timeout_s: float = _TIMEOUT_S
) -> ControlState:
    """Read a control topic to its end, if it exists.

    Raises:
        TopicForbiddenError: it may not be read. If it is ``hidden``, there may be no such topic.
        ReaderError, ControlRecordError: as :func:`read_control`.
    """
    with closing(AssignedReader(kafka, group, SMALL_PREFETCH, logger=admin_log)) as reader:
        cluster = _cluster(reader, topic, time.monotonic() + timeout_s)
        if cluster is None:
            return ControlState()
        only = Partition(topic, 0)
        batches = reader.batches({only: OFFSET_BEGINNING}, {only: None}, timeout_s)
        return control_state(((each.key(), each.value()) for batch in batches for each in batch.messages), cluster)


def append_control(
    kafka: Mapping[str, ConfigValue], topic: str, records: Iterable[ControlRecord], timeout_s: float = _FLUSH_S
) -> int:
    """Append records and wait until Kafka has confirmed them.

    Returns:
        the offset behind the last one. A reader may reach it later, when a transaction of another process has ended.

    Raises:
        AdminError: Kafka refuses one, or does not answer.
    """
    producer = _producer(kafka)
    errors: list[KafkaError | None] = []
    end = 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal end
        errors.append(error)
        end = max(end, (message.offset() or 0) + 1)

    for record in records:
        try:
            producer.produce(topic, record.value, record.key, 0, on_delivery=delivered)
        except KafkaException as exception:
            errors.append(exception.args[0])
    if producer.flush(timeout_s):
        raise AdminError(f"write to {topic}", f"no answer in {timeout_s:g} s")
    refused = next((error for error in errors if error is not None), None)
    if refused is not None:
        raise admin_error(f"write to {topic}", refused, f"Write on topic {topic}")
    return end


def _producer(kafka: Mapping[str, ConfigValue]) -> Producer:
    # A client that needs a producer id asks for it half a second after it has failed to do so without a connection.
    # A record written twice changes nothing here, and one request at a time keeps the order.
    own = {"delivery.report.only.error": False, "enable.idempotence": False, "max.in.flight": 1}
    config = producer_config(kafka, transactional_id=None) | own
    return open_producer(config, admin_log)


def _cluster(reader: AssignedReader, topic: str, deadline: float) -> str | None:
    """Return the id of the cluster; ``None`` if the topic does not exist.

    Raises:
        TopicForbiddenError: the topic may not be described.
    """
    while True:
        try:
            metadata = reader.metadata(topic, min(_METADATA_TIMEOUT_S, max(_POLL_S, deadline - time.monotonic())))
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            if not is_transient_for_consumer(error) or time.monotonic() > deadline:
                raise ReaderError(f"topic {topic} cannot be described: {error.str()}") from exception
            continue
        refusal = metadata.topics[topic].error
        if refusal is not None and is_denied(refusal):
            raise TopicForbiddenError(topic, refusal.str(), hidden=True)
        return None if refusal is not None else str(metadata.cluster_id)


_ANSWER_S = 10.0
_BATCH = 1_000


class ControlTail:
    """A consumer of the control topic that is not a member of the group. Used by one thread at a time."""

    def __init__(
        self,
        kafka: Mapping[str, ConfigValue],
        group: str,
        topic: str,
        *,
        keep_records: bool = False,
        uncommitted: bool = False,
    ) -> None:
        """Create the consumer, which connects with the first request.

        Args:
            kafka: the client settings.
            group: the consumer group.
            topic: its control topic.
            keep_records: whether :meth:`state` is asked for.
            uncommitted: whether to read what is behind an open transaction, too. What is known of requests is wrong
                then: only what has been done about them is written in transactions.
        """
        self._records: dict[bytes | None, bytes | None] | None = {} if keep_records else None
        prefetch = IDLE_FETCH | UNCOMMITTED if uncommitted else IDLE_FETCH
        self._reader = AssignedReader(kafka, group, prefetch, logger=admin_log)
        self._topic = topic
        self._only = Partition(topic, 0)
        self._assigned = False
        self._position = OFFSET_BEGINNING
        """The offset that is read next."""

        self._mark = ""
        """Of the topic that is read; empty if it is not known."""

        self.pauses = Pauses()
        """What was read so far."""

    def about(self, mark: str) -> bool:
        """Read from the start if the name stands for another topic now: what was read is about a deleted one.

        The client would go on at the same offset, or at the start if there is none, and say nothing.

        Args:
            mark: that of the present topic; empty if it is not known.

        Returns:
            whether it is another one.
        """
        before, self._mark = self._mark, mark or self._mark
        if not is_other_topic(before, mark):
            return False
        _log.warning("topic %s was deleted and created again: what it said before is void", self._topic)
        self.pauses, self._position = Pauses(), OFFSET_BEGINNING
        self._records = None if self._records is None else {}
        if self._assigned:
            self._reader.assign({self._only: OFFSET_BEGINNING})
        return True

    def exists(self) -> bool:
        """Return whether there is a control topic. From then on it is read.

        Raises:
            ReaderError: Kafka does not answer.
        """
        if self._assigned:
            return True
        try:
            if self._reader.metadata(self._topic, _ANSWER_S).topics[self._topic].error is not None:
                return False
        except KafkaException as exception:
            raise self._undescribed(exception) from exception
        self._reader.assign({self._only: self._position})
        self._assigned = True
        return True

    def read_to_end(self) -> Pauses:
        """Read to the end that the topic has now, from where the last call ended. Without a topic there are no pauses.

        Raises:
            ReaderError: Kafka does not answer, or refuses.
            TopicForbiddenError: the user may not read the topic.
        """
        if self.exists():
            end = self._end()
            self.poll(0)  # an error of a topic that was deleted meanwhile
            for batch in self._reader.batches({self._only: self._position}, {self._only: end}, _TIMEOUT_S):
                self._take(batch)
        return self.pauses

    def poll(self, timeout_s: float) -> Pauses:
        """Wait for a record, and return what was read so far, with all records that are there.

        While Kafka does not answer, nothing is read.

        Raises:
            ReaderError, TopicForbiddenError: as :meth:`read_to_end`.
        """
        self._take(self._reader.fetch(_BATCH, timeout_s))
        return self.pauses

    def state(self) -> ControlState:
        """Return what the records say that were read so far, but for saved positions.

        Raises:
            ControlRecordError: another program has written to the topic.
        """
        return control_state((self._records or {}).items())

    def _end(self) -> int:
        """Return the present end. The event for the end alone would come half a second later."""
        try:
            start, end = self._reader.bounds(self._only, _ANSWER_S)
        except KafkaException as exception:
            raise self._undescribed(exception) from exception
        return 0 if start == end else end

    def _undescribed(self, exception: KafkaException) -> ReaderError:
        return ReaderError(f"topic {self._topic} cannot be described: {exception.args[0].str()}")

    def _take(self, batch: ReadBatch) -> None:
        for message, offset in zip(batch.messages, batch.offsets, strict=True):
            self.pauses = self.pauses.with_record(message.key(), message.value(), offset)
            if self._records is not None:
                self._records[message.key()] = message.value()
        self._position = batch.positions.get(self._only, self._position)

    def close(self) -> None:
        """Release the client."""
        self._reader.close()
