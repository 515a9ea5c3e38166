"""Wolverine (.NET): the native dead letter queue of its Kafka transport.

=====================  ==========================================================
header                 content, all text
=====================  ==========================================================
``exception-type``     class of the exception
``exception-message``  its text
``exception-stack``    its stack trace
``failed-at``          epoch ms
``destination``        where the envelope was sent, such as ``kafka://topic/orders``
``attempts``           a decimal number: deliveries so far
=====================  ==========================================================

The last two are those of every envelope; a record that another program produced may lack them. Partition and offset are
not there.

Source: https://wolverinefx.net/guide/messaging/transports/kafka.html, and ``KafkaListener.MoveToErrorsAsync`` in
https://github.com/JasperFx/wolverine
"""

from __future__ import annotations

from typing import Final

from kafka_redelivery.dead_letters.foreign.failure import FAILED, Failure, System, Values, having, number, text

_TOPIC: Final = "kafka://topic/"


def _read(values: Values) -> Failure:
    named = (text(values.get(name)) for name in ("original-destination", "destination"))
    return Failure(
        topic=next((each.removeprefix(_TOPIC) for each in named if each.startswith(_TOPIC)), ""),
        attempts=number(values.get("attempts")),
        reason=FAILED,
        exception=text(values.get("exception-type")),
        message=text(values.get("exception-message")),
    )


WOLVERINE: Final = System(
    name="wolverine",
    recognises=having("exception-type", "failed-at"),
    read=_read,
    removed=("exception-type", "exception-message", "exception-stack", "failed-at", "original-destination", "attempts"),
)
