"""Letters are cut into chunks: each pending one is in exactly one chunk, in order."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.dead_letters.jobs import Chunk, chunk_size, chunks

OFFSETS = st.sets(st.integers(0, 60))


@given(OFFSETS, OFFSETS, st.integers(1, 5), st.integers(1, 50))
def test_each_pending_letter_is_in_one_part(pending: set[int], existing: set[int], size: int, max_bytes: int) -> None:
    """It is sent if it exists and gone if not; no chunk is larger than allowed, and only the last one is the last."""
    letters = [(offset, 10, f"letter {offset}") for offset in sorted(existing)]
    found: list[Chunk[str]] = list(chunks(sorted(pending), letters, size, max_bytes))
    assert [each for chunk in found for each in chunk.letters] == [
        (offset, f"letter {offset}") for offset in sorted(pending & existing)
    ]
    assert [offset for chunk in found for offset in chunk.gone] == sorted(pending - existing)
    assert [chunk.last for chunk in found] == [False] * (len(found) - 1) + [True]
    throughs = [chunk.through for chunk in found]
    assert throughs == sorted(set(throughs))
    assert throughs[-1] == max(pending, default=-1)
    for chunk in found:
        assert len(chunk.letters) + len(chunk.gone) <= size
        assert len(chunk.letters) * 10 <= max(10, max_bytes)


def test_a_rate_makes_small_parts() -> None:
    """A quarter of a second of letters, at least one and at most a whole chunk."""
    assert [chunk_size(rate) for rate in (None, 0.1, 4, 400, 1_000_000)] == [500, 1, 1, 100, 500]
