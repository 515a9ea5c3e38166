"""Calls on a thread of their own."""

import gc
import threading

from kafka_redelivery.transport.clients.bounded_waits import BoundedCalls


def test_the_thread_ends_with_its_owner() -> None:
    """A process that replaces its producers for months has no thread more."""
    before = set(threading.enumerate())
    calls = BoundedCalls()
    found: list[int] = []
    calls.make(lambda: found.append(1), 30)
    [thread] = [each for each in threading.enumerate() if each.name == "calls" and each not in before]
    assert thread.is_alive()
    del calls
    gc.collect()
    thread.join(30)
    assert (found, thread.is_alive()) == ([1], False)
