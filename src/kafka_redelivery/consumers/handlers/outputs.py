"""Emitted records, checked and encoded.

The checks make a mistake the failure of one record. Without them the Kafka client would raise while a transaction is
open, report the mistake when its record is no longer known, or crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from kafka_redelivery.consumers.handlers.record import Output
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.serdes.framing import with_schema_ids
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.topics.naming import check_names
from kafka_redelivery.transport.admin.topics import TopicMetadataCache
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import ProducerRecord, TopicMetadata

MAX_PARTITIONS = 2**31


def as_producer_record(
    output: Output, codecs: tuple[Codec, Codec] | None, topics: TopicMetadata | None = None
) -> ProducerRecord:
    """Encode an emitted record.

    Args:
        output: the record as the handler emitted it.
        codecs: codecs of key and value; ``None`` if the configuration names none for the topic.
        topics: answers whether topic and partition exist; ``None`` = not checked.

    Raises:
        TypeError, ValueError: topic, partition, key, value or headers are not valid in Kafka.
        TransportError: the cluster does not say which topics exist.
        EncodeError, SchemaSourceUnavailable: a codec fails.
    """
    topic, partition, key, value, headers = output.topic, output.partition, output.key, output.value, output.headers
    check_destination(topic, partition, topics)
    if headers != ():
        check_headers(topic, headers)
    if codecs is not None:
        key, value = codecs[0].encode(key), codecs[1].encode(value)
        headers = with_schema_ids(codecs, key, value, headers)
    else:
        for part in (key, value):
            if not (part is None or isinstance(part, bytes)):
                raise TypeError(
                    f"{topic} has no codec under 'outputs' in the configuration, so key and value "
                    f"must be bytes, not {type(part).__name__}"
                )
    return ProducerRecord(topic, partition, key, value, list(headers))


def check_destination(topic: object, partition: object, topics: TopicMetadata | None) -> None:
    """Check topic and partition of an emitted record.

    Raises:
        TypeError, ValueError: they are not valid, or do not exist.
        TransportError: the cluster does not say which topics exist.
    """
    if not isinstance(topic, str):
        raise TypeError(f"the topic of an output must be a str, not {type(topic).__name__}")
    _check_topic(topic)
    if not (partition is None or isinstance(partition, int)):
        raise TypeError(f"the partition of an output to {topic} must be an int, not {type(partition).__name__}")
    count = MAX_PARTITIONS if topics is None else topics.partitions(topic, partition or 0)
    if count is None:
        raise ValueError(
            f"the topic {topic} of an output does not exist; create it, or correct its name in the handler"
        )
    if partition is not None and not 0 <= partition < count:
        raise ValueError(f"partition {partition} of {topic}, to which an output was sent, does not exist")


@lru_cache(256)
def _check_topic(topic: str) -> None:
    if topic.startswith("__"):
        raise ValueError(f"{topic}, to which an output was sent, is an internal topic of Kafka; emit to another topic")
    for fault in check_names({"output": topic}):
        raise ValueError(str(fault))


def check_headers(topic: str, headers: Iterable[object]) -> None:
    """Check the headers of an emitted record.

    Raises:
        TypeError: a header is not a pair of str and bytes or None.
        ValueError: a name cannot be encoded as UTF-8.
    """
    for pair in headers:
        _check_header(topic, pair)


def _check_header(topic: str, pair: object) -> None:
    match pair:
        case (str(name), None | bytes()):
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ValueError(f"the name of a header to {topic} is not UTF-8: {name!a}") from None
        case _:
            raise TypeError(f"a header to {topic} must be a pair of str and bytes or None, not {pair!a}")


class Destinations:
    """The topics to which handlers may emit: all that exist, except those of the group itself. Thread-safe.

    The :class:`TopicMetadata` for the checks of outputs.
    """

    def __init__(self, settings: Settings, topics: TopicMetadataCache) -> None:
        """Take the names from the configuration."""
        self._topics = topics
        self._naming = naming = settings.naming()
        self._listed = frozenset(output.topic for output in settings.outputs)
        self._internal = set(naming.internal_topics())
        for source in settings.sources:
            self._internal.add(naming.ready_topic(source.topic))
            for template in settings.entry(source.topic).dead_letter_strategy.templates:
                self._internal.add(naming.dead_letter_topic(template, source.topic))
        self._allowed: set[str] = set()
        """Existing topics that have been found not to be internal."""

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """See :class:`TopicMetadata`. A listed topic counts as one that exists: the write finds out whether it does.

        Raises:
            ValueError: the topic is an internal one of the group.
            TransportError: the cluster does not answer.
        """
        if topic in self._allowed:  # the most frequent case comes first: this runs for every output
            return self._topics.partitions(topic, wanted)
        if topic in self._listed:
            return self._partitions_of_listed(topic, wanted)
        if topic in self._internal or self._naming.tiers_among((topic,)):
            raise ValueError(
                f"{topic}, to which an output was sent, is a topic of group {self._naming.group} itself; emit to "
                "another topic"
            )
        count = self._topics.partitions(topic, wanted)
        if count is not None:
            self._allowed.add(topic)
        return count

    def note_missing(self, topic: str) -> bool:
        """Note that the cluster has said that a topic does not exist; return whether the configuration lists it."""
        if topic in self._listed:
            return True
        self._topics.ask_again(topic)
        return False

    def _partitions_of_listed(self, topic: str, wanted: int) -> int:
        count = None
        if wanted:
            with suppress(TransportError):
                count = self._topics.partitions(topic, wanted)
        return MAX_PARTITIONS if count is None else count
