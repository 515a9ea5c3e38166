"""Reads the pauses in the control topic of a group, and those that are appended later."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from kafka_redelivery.topology.wire.control import ControlState, control_state
from kafka_redelivery.topology.wire.pauses import Pauses
from kafka_redelivery.transport.client_config import IDLE_FETCH, ConfigValue, consumer_config
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.kafka_errors import consumer_error, is_transient_for_consumer
from kafka_redelivery.transport.opening import open_consumer

_TIMEOUT_S = 60.0
_ANSWER_S = 10.0
_POLL_S = 0.2


class ControlTail:
    """A consumer of the control topic that is not a member of the group. Used by one thread at a time."""

    def __init__(self, kafka: Mapping[str, ConfigValue], group: str, topic: str, *, keep_records: bool = False) -> None:
        """Create the consumer, which connects with the first request.

        Args:
            kafka: the client settings.
            group: the consumer group.
            topic: its control topic.
            keep_records: whether :meth:`state` is asked for.
        """
        self._records: dict[bytes | None, bytes | None] | None = {} if keep_records else None
        config = consumer_config(kafka, group=group, instance=None) | IDLE_FETCH
        self._consumer = open_consumer(config, admin_log)
        self._group = group
        self._topic = topic
        self._assigned = False
        self._position = 0
        """The offset that is read next."""

        self.pauses = Pauses()
        """What was read so far."""

    def exists(self) -> bool:
        """Return whether there is a control topic. From then on it is read.

        Raises:
            ReaderError: Kafka does not answer.
        """
        if self._assigned:
            return True
        partition = TopicPartition(self._topic, 0, OFFSET_BEGINNING)
        try:
            topic = self._consumer.list_topics(self._topic, timeout=_ANSWER_S).topics[self._topic]
            if topic.error is not None:
                return False
        except KafkaException as exception:
            raise self._undescribed(exception) from exception
        self._consumer.assign([partition])
        self._assigned = True
        return True

    def read_to_end(self, within_s: float = _TIMEOUT_S) -> Pauses:
        """Read to the end that the topic has now, from where the last call ended. Without a topic there are no pauses.

        Raises:
            ReaderError: Kafka does not answer, or refuses.
            TopicForbiddenError: the user may not read the topic.
        """
        deadline = time.monotonic() + within_s
        if not self.exists():
            return self.pauses
        end = self._end()
        self.poll(0)  # an error of a topic that was deleted meanwhile
        while self._position < end:
            self.poll(_POLL_S)
            if time.monotonic() > deadline:
                raise ReaderError(f"topic {self._topic} cannot be read to its end: no answer in {within_s:g} s")
        return self.pauses

    def poll(self, timeout_s: float) -> Pauses:
        """Wait for a record, and return what was read so far, with all records that are there.

        While Kafka does not answer, nothing is read.

        Raises:
            ReaderError, TopicForbiddenError: as :meth:`read_to_end`.
        """
        message = self._consumer.poll(timeout_s)
        while message is not None:
            self._take(message)
            message = self._consumer.poll(0)
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
            start, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), _ANSWER_S) or (0, 1)
        except KafkaException as exception:
            raise self._undescribed(exception) from exception
        return 0 if start == end else end

    def _undescribed(self, exception: KafkaException) -> ReaderError:
        return ReaderError(f"topic {self._topic} cannot be described: {exception.args[0].str()}")

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            offset = message.offset() or 0
            self.pauses = self.pauses.with_record(message.key(), message.value(), offset)
            if self._records is not None:
                self._records[message.key()] = message.value()
            self._position = offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            self._position = max(self._position, message.offset() or 0)
        elif not is_transient_for_consumer(error):
            raise consumer_error(error, self._topic, self._group, joins=False)

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()
