"""Kafka Streams 4.2 and newer: ``errors.dead.letter.queue.topic.name``.

==================================  ===================================
header                              content, all text
==================================  ===================================
``__streams.errors.topic``          the topic that the application reads
``__streams.errors.partition``      a decimal number
``__streams.errors.offset``         a decimal number
``__streams.errors.exception``      class of the exception
``__streams.errors.message``        its text; may be null
``__streams.errors.stacktrace``     text of several KiB
==================================  ===================================

The headers do not say which application it was. Key and value are those of the record as it was read; both are null if
Streams had not kept it, as after an error of the producer or of a punctuator.

Source: KIP-1034, https://cwiki.apache.org/confluence/display/KAFKA/KIP-1034%3A+Dead+letter+queue+in+Kafka+Streams
"""

from __future__ import annotations

from typing import Final

from kafka_redelivery.dead_letters.foreign.failure import (
    FAILED,
    UNDECODABLE,
    Failure,
    System,
    Values,
    having,
    number,
    partition_of,
    text,
)

_PREFIX: Final = "__streams.errors."


def _read(values: Values) -> Failure:
    exception = text(values.get(f"{_PREFIX}exception"))
    return Failure(
        topic=text(values.get(f"{_PREFIX}topic")),
        partition=partition_of(number(values.get(f"{_PREFIX}partition"))),
        offset=number(values.get(f"{_PREFIX}offset")),
        reason=UNDECODABLE if exception.endswith(".SerializationException") else FAILED,
        exception=exception,
        message=text(values.get(f"{_PREFIX}message")),
    )


STREAMS: Final = System(
    name="streams", recognises=having(f"{_PREFIX}topic"), read=_read, removed=(f"{_PREFIX}*",), keeps_content=True
)
