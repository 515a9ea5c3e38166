"""Waiting for a queue ends in time, however the thread is scheduled."""

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from kafka_redelivery.transport.clients.bounded_waits import get_within


def test_get_within_returns_an_item_or_times_out() -> None:
    """An item that is there is returned immediately; an empty queue raises after the time-out."""
    queue: SimpleQueue[int] = SimpleQueue()
    for within_s in (None, 0.0, 60.0):
        queue.put(1)
        assert get_within(queue, within_s) == 1
    for within_s in (0, 0.001):
        with pytest.raises(Empty):
            get_within(queue, within_s)


def test_get_within_ends_if_the_thread_is_delayed_before_it_waits() -> None:
    """The thread can lose the processor at any instruction, so that the time-out has passed before the wait begins."""

    def wait() -> None:
        for _ in range(60_000):
            queue: SimpleQueue[None] = SimpleQueue()
            queue.put(None)
            get_within(queue, 0)
            with suppress(Empty):
                get_within(queue, 1e-7)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    thread.join(240)  # each of the many waits gives up the processor
    assert not thread.is_alive()
