"""A wait for a queue ends, whatever else the processor has to do."""

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from transport.queue_wait import next_of


def test_what_is_there_is_taken_at_once() -> None:
    """And what is not, is waited for as long as was said."""
    queue: SimpleQueue[int] = SimpleQueue()
    for within_s in (None, 0.0, 60.0):
        queue.put(1)
        assert next_of(queue, within_s) == 1
    for within_s in (0, 0.001):
        with pytest.raises(Empty):
            next_of(queue, within_s)


def test_a_wait_that_is_held_up_before_it_begins_ends_all_the_same() -> None:
    """The processor may be taken away at any instruction; then the time has passed at the first look already."""

    def wait() -> None:
        for _ in range(60_000):
            queue: SimpleQueue[None] = SimpleQueue()
            queue.put(None)
            next_of(queue, 0)
            with suppress(Empty):
                next_of(queue, 1e-7)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
