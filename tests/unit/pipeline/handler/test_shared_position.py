"""The parent reads a whole position at any moment, whatever the child is writing."""

from kafka_redelivery.pipeline.handler.shared_position import SHARED_BYTES, SharedPosition


def test_a_half_written_position_is_not_read() -> None:
    """Until its last byte is written, the parent reads the position before it."""
    memory = bytearray(SHARED_BYTES)
    position = SharedPosition(memory)
    position.clear()
    position.set(7)
    seven, before = position.read(), bytes(memory)
    position.set(8, 3)
    after = bytes(memory)
    for written in range(SHARED_BYTES):
        memory[:] = after[:written] + before[written:]
        assert position.read() == seven
    memory[:] = after
    assert (position.read() or ())[:2] == (8, 3)


def test_a_cleared_position_is_none() -> None:
    """The child handles no record."""
    position = SharedPosition(bytearray(SHARED_BYTES))
    position.set(7)
    position.clear()
    assert position.read() is None


def test_records_are_published_before_they_are_handled() -> None:
    """While the child handles one, the parent reads its index; another number is published in between."""
    position = SharedPosition(bytearray(SHARED_BYTES), 0)
    seen = []
    for record in position.publishing("abc", 5):
        seen.append((record, (position.read() or ())[:2]))
        if record == "a":
            position.clear()
    assert seen == [("a", (5, 1)), ("b", (6, 1)), ("c", (7, 1))]
