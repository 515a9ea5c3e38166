"""A summary of dead letters is exact while it is small, nearly exact when it is large, and bounded in memory."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.dead_letters.monitor import MAX_SEGMENTS, NEVER, DeadLetterSummary
from kafka_redelivery.consumers.telemetry.observers import DeadLetterCount


def summary(number: int, *, every: int = 1, life_ms: int | None = None) -> DeadLetterSummary:
    """Dead letters at offsets 0, every, 2 * every ..., appended one per ms from 1000 on."""
    found = DeadLetterSummary()
    for index in range(number):
        found.add(index * every, 1000 + index, NEVER if life_ms is None else 1000 + index + life_ms)
    return found


def test_an_empty_summary_has_no_age() -> None:
    """There is no oldest dead letter."""
    assert DeadLetterSummary().count(5000) == DeadLetterCount(0, 0, None)


@given(number=st.integers(1, MAX_SEGMENTS), start=st.integers(0, 400), every=st.integers(1, 3))
def test_a_small_summary_is_exact(number: int, start: int, every: int) -> None:
    """Number and oldest are exact wherever its start was deleted, with gaps between the offsets or without."""
    found = summary(number, every=every)
    found.drop_before(start)
    left = [index for index in range(number) if index * every >= start]
    assert found.count(5000) == DeadLetterCount(len(left), 0, 1000 + left[0] if left else None)


@given(number=st.integers(1, MAX_SEGMENTS), now_ms=st.integers(900, 1400))
def test_expired_dead_letters_are_counted_separately(number: int, now_ms: int) -> None:
    """They do not count for the age."""
    expired = sum(1100 + index <= now_ms for index in range(number))
    depth = number - expired
    oldest_ms = 1000 + expired if depth else None
    assert summary(number, life_ms=100).count(now_ms) == DeadLetterCount(depth, expired, oldest_ms)


@given(number=st.integers(1, 20_000), deleted=st.integers(0, 20_000))
def test_a_large_summary_is_bounded_and_nearly_exact(number: int, deleted: int) -> None:
    """The age is exact to within one segment, the number exact where offsets have no gaps."""
    found = summary(number)
    assert len(found) <= MAX_SEGMENTS
    assert found.count(0).depth == number
    found.drop_before(deleted)
    left, near = max(0, number - deleted), 2 * number / MAX_SEGMENTS
    count = found.count(0)
    assert count.depth == left
    assert (count.oldest_ms is None) == (left == 0)
    if count.oldest_ms is not None:
        assert 1000 + deleted - near <= count.oldest_ms <= 1000 + max(deleted, 0)


@given(number=st.integers(1, 20_000), now_ms=st.integers(1000, 25_000))
def test_the_expired_number_of_a_large_summary_is_nearly_exact(number: int, now_ms: int) -> None:
    """Dead letters with one lifetime expire in order."""
    count = summary(number, life_ms=100).count(now_ms)
    expired = min(number, max(0, now_ms - 1100 + 1))
    assert count.depth + count.expired == number
    assert abs(count.expired - expired) <= 2 * number / MAX_SEGMENTS + 1


def test_a_dead_letter_that_never_expires_is_not_counted_as_expired() -> None:
    """After a change of the policy this holds for all dead letters in its segment."""
    found = summary(1000)
    assert found.count(2**60).expired == 0
    for index in range(1000):
        found.add(1000 + index, 3000, 4000)
    count = found.count(2**60)
    assert count.depth + count.expired == 2000
    assert 1000 <= count.depth <= 1000 + 4000 / MAX_SEGMENTS


def test_an_emptied_summary_is_exact_again() -> None:
    """Its segments hold one dead letter each again."""
    found = summary(10_000)
    found.drop_before(10_000)
    for index in range(MAX_SEGMENTS):
        found.add(10_000 + index, 50_000 + index, NEVER)
    found.drop_before(10_001)
    assert found.count(0) == DeadLetterCount(MAX_SEGMENTS - 1, 0, 50_001)


@given(number=st.integers(1, 2000), retention_ms=st.integers(1, 200), now_ms=st.integers(900, 4000))
def test_retention_threatens_only_dead_letters_that_live_longer(number: int, retention_ms: int, now_ms: int) -> None:
    """Each lives for 100 ms. A shorter retention threatens the oldest one that has not expired."""
    loss_ms = summary(number, life_ms=100).loss_ms(now_ms, retention_ms)
    alive = [1000 + index for index in range(number) if 1100 + index > now_ms]
    assert (loss_ms is None) == (retention_ms >= 100 or not alive)
    if loss_ms is not None:
        near = 2 * number / MAX_SEGMENTS
        assert alive[0] - near <= loss_ms - retention_ms <= alive[0]


@given(number=st.integers(1, 2000), max_segments=st.integers(8, MAX_SEGMENTS))
def test_the_limit_may_be_lowered_at_any_time(number: int, max_segments: int) -> None:
    """The next addition applies it, and no dead letter is lost from the count."""
    found = summary(number)
    found.add(number, 1000 + number, NEVER, max_segments)
    assert len(found) <= max_segments
    assert found.count(0) == DeadLetterCount(number + 1, 0, 1000)
