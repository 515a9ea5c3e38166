"""Searches read the same number of records of each partition."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.operations.waiting import shares
from kafka_redelivery.transport.protocols import Partition


def test_small_ranges_leave_their_share_to_others() -> None:
    """Ten records are allowed: one range has two, so that the others have four each."""
    small, large, larger = (Partition("orders", number) for number in range(3))
    assert shares({large: (0, 100), small: (5, 7), larger: (10, 1000)}, 10) == {small: 7, large: 4, larger: 14}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=12), st.integers(1, 300))
def test_about_the_limit_is_read(sizes: list[tuple[int, int]], limit: int) -> None:
    """All of it if it is no more than the limit; otherwise the limit, or one record of each range."""
    ranges = {Partition("orders", number): (start, start + size) for number, (start, size) in enumerate(sizes)}
    ends = shares(ranges, limit)
    assert all(start <= ends[each] <= end for each, (start, end) in ranges.items())
    total, nonempty = sum(size for _, size in sizes), sum(size > 0 for _, size in sizes)
    chosen = sum(ends[each] - start for each, (start, _) in ranges.items())
    assert min(total, limit) <= chosen <= max(min(total, limit), nonempty)
