"""A browser of Classic ends with a frame without a message, whatever properties the messages have."""

import queue
from types import SimpleNamespace

from kafka_redelivery.transport.activemq.queue_reader import QueueReader


def received(**headers: str) -> object:
    """Return what a reader keeps of a frame."""
    reader = object.__new__(QueueReader)
    reader._events, reader._queue = queue.SimpleQueue(), "DLQ"
    reader.on_message(
        SimpleNamespace(headers={name.replace("_", "-"): text for name, text in headers.items()}, body=b"a")
    )
    return reader._events.get()


def test_the_frame_behind_the_last_message_ends_it() -> None:
    """Classic gives it the id 0; a message may have a property of the same name."""
    assert received(browser="end", message_id="0") is None
    assert received(browser="end", message_id="ID:a-1:1:1") is not None
