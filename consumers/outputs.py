"""What a handler emits, as the client takes it.

Checked here, where a mistake is the failure of one record: the client raises on some of them while a
transaction is open, reports others only when it is too late to tell whose they are, and dies of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from consumers.record import Output
from serdes.codec import Codec
from topology.naming import check_names
from transport.protocols import Copy, Topics

_MOST_PARTITIONS = 2**31


def as_copy(output: Output, codecs: tuple[Codec, Codec] | None, topics: Topics | None = None) -> Copy:
    """The record to be written.

    Args:
        output: as emitted.
        codecs: of key and value, ``None`` if the configuration names none for the topic.
        topics: asked whether it can be written there; ``None`` = not checked.

    Raises:
        TypeError, ValueError: a part of it is nothing that Kafka has; says which.
        TransportError: the cluster does not tell which topics there are.
        EncodeError, SchemaSourceUnavailable: from the codecs.
    """
    topic, partition, key, value = output.topic, output.partition, output.key, output.value
    check_place(topic, partition, topics)
    check_headers(topic, output.headers)
    if codecs is not None:
        key, value = codecs[0].encode(key), codecs[1].encode(value)
    else:
        for part in (key, value):
            if not (part is None or isinstance(part, bytes)):
                raise TypeError(
                    f"{topic} has no codec under 'outputs' in the configuration, so key and value "
                    f"must be bytes, got {type(part).__name__}"
                )
    return Copy(topic, partition, key, value, list(output.headers))


def check_place(topic: object, partition: object, topics: Topics | None) -> None:
    """Whether there is something to write to.

    Raises:
        TypeError, ValueError, TransportError: as of :func:`as_copy`.
    """
    if not isinstance(topic, str):
        raise TypeError(f"the topic of an output must be a str, got {type(topic).__name__}")
    _check_topic(topic)
    if not (partition is None or isinstance(partition, int)):
        raise TypeError(f"the partition of an output to {topic} must be an int, got {type(partition).__name__}")
    count = _MOST_PARTITIONS if topics is None else topics.partitions(topic, partition or 0)
    if count is None:
        raise ValueError(f"there is no topic {topic} to write an output to; create it")
    if partition is not None and not 0 <= partition < count:
        raise ValueError(f"no topic {topic} has a partition {partition}; an output was to go there")


@lru_cache(256)
def _check_topic(topic: str) -> None:
    for fault in check_names({"output": topic}):
        raise ValueError(str(fault))


def check_headers(topic: str, headers: Iterable[object]) -> None:
    """Whether Kafka has such headers.

    Raises:
        TypeError, ValueError: as of :func:`as_copy`.
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
            raise TypeError(f"a header to {topic} must be a pair of str and bytes or None, got {pair!a}")
