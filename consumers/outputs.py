"""What a handler emits, as the client takes it.

Checked here, where a mistake is the failure of one record: the client raises on some of them while a
transaction is open, reports others only when it is too late to tell whose they are, and dies of one.
"""

from __future__ import annotations

from functools import lru_cache

from consumers.record import Output
from serdes.codec import Codec
from topology.naming import check_names
from transport.protocols import Copy

_MOST_PARTITIONS = 2**31


def as_copy(output: Output, codecs: tuple[Codec, Codec] | None) -> Copy:
    """The record to be written.

    Args:
        output: as emitted.
        codecs: of key and value, ``None`` if the configuration names none for the topic.

    Raises:
        TypeError, ValueError: a part of it is nothing that Kafka has; says which.
        EncodeError, SchemaSourceUnavailable: from the codecs.
    """
    topic, partition = output.topic, output.partition
    if not isinstance(topic, str):
        raise TypeError(f"the topic of an output must be a str, got {type(topic).__name__}")
    _check_topic(topic)
    if partition is not None:
        if not isinstance(partition, int):
            raise TypeError(f"the partition of an output to {topic} must be an int, got {type(partition).__name__}")
        if not 0 <= partition < _MOST_PARTITIONS:
            raise ValueError(f"no topic has a partition {partition}; {topic} was to have an output there")
    for pair in output.headers:
        _check_header(topic, pair)
    if codecs is not None:
        key, value = codecs[0].encode(output.key), codecs[1].encode(output.value)
    else:
        key, value = output.key, output.value
        for part in (key, value):
            if not (part is None or isinstance(part, bytes)):
                raise TypeError(
                    f"{topic} has no codec under 'outputs' in the configuration, so key and value "
                    f"must be bytes, got {type(part).__name__}"
                )
    return Copy(topic, partition, key, value, list(output.headers))


@lru_cache(256)
def _check_topic(topic: str) -> None:
    for fault in check_names({"output": topic}):
        raise ValueError(str(fault))


def _check_header(topic: str, pair: object) -> None:
    match pair:
        case (str(name), None | bytes()):
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ValueError(f"the name of a header to {topic} is not UTF-8: {name!a}") from None
        case _:
            raise TypeError(f"a header to {topic} must be a pair of str and bytes or None, got {pair!a}")
