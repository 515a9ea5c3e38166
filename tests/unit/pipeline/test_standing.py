"""Which record a handler's process is at, as its parent reads it at any moment."""

from pipeline.standing import STANDING_BYTES, Standing


def test_what_is_half_written_is_not_seen() -> None:
    """Until the last byte of a note is written its reader sees the one before, whole."""
    memory = bytearray(STANDING_BYTES)
    standing = Standing(memory)
    standing.nowhere()
    standing.at(7)
    seven, before = standing.read(), bytes(memory)
    standing.at(8, 3)
    after = bytes(memory)
    for written in range(STANDING_BYTES):
        memory[:] = after[:written] + before[written:]
        assert standing.read() == seven
    memory[:] = after
    assert (standing.read() or ())[:2] == (8, 3)


def test_nowhere() -> None:
    """Between two records it is at none."""
    standing = Standing(bytearray(STANDING_BYTES))
    standing.at(7)
    standing.nowhere()
    assert standing.read() is None
