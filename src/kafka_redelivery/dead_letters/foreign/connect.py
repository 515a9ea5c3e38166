"""Kafka Connect: the dead letter queue of a sink connector, with ``errors.deadletterqueue.context.headers.enable``.

=========================================  ===================================================
header                                     content, all text
=========================================  ===================================================
``__connect.errors.topic``                 the topic that the connector reads
``__connect.errors.partition``, ``offset`` decimal numbers
``__connect.errors.connector.name``        the connector; its consumer group is ``connect-…``
``__connect.errors.task.id``               a decimal number
``__connect.errors.stage``                 such as ``VALUE_CONVERTER`` or ``TRANSFORMATION``
``__connect.errors.class.name``            the converter, transformation or task
``__connect.errors.exception.class.name``  class of the exception
``__connect.errors.exception.message``     its text; may be null
``__connect.errors.exception.stacktrace``  text of several KiB
=========================================  ===================================================

Source: KIP-298, https://cwiki.apache.org/confluence/display/KAFKA/KIP-298%3A+Error+Handling+in+Connect;
https://kafka.apache.org/documentation/#sinkconnectorconfigs_errors.deadletterqueue.context.headers.enable
"""

from __future__ import annotations

from typing import Final

from kafka_redelivery.dead_letters.foreign.failure import Failure, System, Values, having, number, partition_of, text

_PREFIX: Final = "__connect.errors."


def _read(values: Values) -> Failure:
    connector = text(values.get(f"{_PREFIX}connector.name"))
    return Failure(
        topic=text(values.get(f"{_PREFIX}topic")),
        partition=partition_of(number(values.get(f"{_PREFIX}partition"))),
        offset=number(values.get(f"{_PREFIX}offset")),
        group=f"connect-{connector}" if connector else "",
        reason=text(values.get(f"{_PREFIX}stage")).lower(),
        exception=text(values.get(f"{_PREFIX}exception.class.name")),
        message=text(values.get(f"{_PREFIX}exception.message")),
    )


CONNECT: Final = System(
    name="connect", recognises=having(f"{_PREFIX}topic"), read=_read, removed=(f"{_PREFIX}*",), keeps_content=True
)
