"""The parent reads a whole position at any moment, whatever the child is writing."""

import subprocess
import sys

from kafka_redelivery.consumers.handlers.child import NO_CALL, SHARED_BYTES, Position, SharedPosition


def test_a_half_written_position_is_not_read() -> None:
    """Until its last byte is written, the parent reads the position before it."""
    memory = bytearray(SHARED_BYTES)
    position = SharedPosition(memory)
    position.clear()
    position.set(1, 7, 1, 2.5)
    seven, before = position.read(), bytes(memory)
    position.set(0, 8, 3, NO_CALL)
    after = bytes(memory)
    for written in range(SHARED_BYTES):
        memory[:] = after[:written] + before[written:]
        assert position.read() == seven
    memory[:] = after
    assert position.read() == Position(0, 8, 3, NO_CALL)


def test_a_cleared_position_is_none() -> None:
    """The child handles no record."""
    position = SharedPosition(bytearray(SHARED_BYTES))
    position.set(1, 7, 1, 2.5)
    position.clear()
    assert position.read() is None


def test_a_child_of_a_pool_does_not_load_what_it_does_not_need() -> None:
    """A worker has one for each slot: the Kafka client and the configuration would double its memory."""
    program = "import kafka_redelivery.consumers.handlers.calls, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "kafka_redelivery.consumers.handlers.child" in found
    assert not {"confluent_kafka", "pydantic", "fastavro"}.intersection(found)
