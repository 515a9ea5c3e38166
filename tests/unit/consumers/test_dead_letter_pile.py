"""A pile of dead letters: exact while it is small, nearly so when it is large, and never larger in memory."""

from hypothesis import given
from hypothesis import strategies as st

from consumers.dead_letter_pile import MOST_RUNS, NEVER, Pile
from consumers.observer import DeadLetterStanding


def pile(number: int, *, every: int = 1, life_ms: int | None = None) -> Pile:
    """Dead letters at offsets 0, every, 2 * every ...; one each ms, from 1000 on."""
    found = Pile()
    for index in range(number):
        found.add(index * every, 1000 + index, NEVER if life_ms is None else 1000 + index + life_ms)
    return found


def test_an_empty_pile_has_no_age() -> None:
    """Nothing is older than nothing."""
    assert Pile().standing(5000) == DeadLetterStanding(0, 0, None)


@given(number=st.integers(1, MOST_RUNS), start=st.integers(0, 400), every=st.integers(1, 3))
def test_a_small_one_is_exact(number: int, start: int, every: int) -> None:
    """Number and oldest, wherever its start was deleted, with holes between the offsets or without."""
    found = pile(number, every=every)
    found.drop_before(start)
    left = [index for index in range(number) if index * every >= start]
    assert found.standing(5000) == DeadLetterStanding(len(left), 0, 1000 + left[0] if left else None)


@given(number=st.integers(1, MOST_RUNS), now_ms=st.integers(900, 1400))
def test_expired_ones_are_counted_apart(number: int, now_ms: int) -> None:
    """And are not what makes it old."""
    expired = sum(1100 + index <= now_ms for index in range(number))
    depth = number - expired
    oldest_ms = 1000 + expired if depth else None
    assert pile(number, life_ms=100).standing(now_ms) == DeadLetterStanding(depth, expired, oldest_ms)


@given(number=st.integers(1, 20_000), gone=st.integers(0, 20_000))
def test_a_large_one_takes_no_more_memory_and_is_nearly_exact(number: int, gone: int) -> None:
    """Its age to within one run, of which there are at least half the most; its number, where offsets have no holes."""
    found = pile(number)
    assert len(found) <= MOST_RUNS
    assert found.standing(0).depth == number
    found.drop_before(gone)
    left, near = max(0, number - gone), 2 * number / MOST_RUNS
    standing = found.standing(0)
    assert standing.depth == left
    assert (standing.oldest_ms is None) == (left == 0)
    if standing.oldest_ms is not None:
        assert 1000 + gone - near <= standing.oldest_ms <= 1000 + max(gone, 0)


@given(number=st.integers(1, 20_000), now_ms=st.integers(1000, 25_000))
def test_the_expired_of_a_large_one_are_nearly_exact(number: int, now_ms: int) -> None:
    """They expire in their order."""
    standing = pile(number, life_ms=100).standing(now_ms)
    expired = min(number, max(0, now_ms - 1100 + 1))
    assert standing.depth + standing.expired == number
    assert abs(standing.expired - expired) <= 2 * number / MOST_RUNS + 1


def test_what_never_expires_is_not_expired() -> None:
    """Nor is what shares a run with such a one, after a change of the policy."""
    found = pile(1000)
    assert found.standing(2**60).expired == 0
    for index in range(1000):
        found.add(1000 + index, 3000, 4000)
    standing = found.standing(2**60)
    assert standing.depth + standing.expired == 2000
    assert 1000 <= standing.depth <= 1000 + 4000 / MOST_RUNS


def test_one_that_was_emptied_is_exact_again() -> None:
    """Somebody cleared the topic."""
    found = pile(10_000)
    found.drop_before(10_000)
    for index in range(MOST_RUNS):
        found.add(10_000 + index, 50_000 + index, NEVER)
    found.drop_before(10_001)
    assert found.standing(0) == DeadLetterStanding(MOST_RUNS - 1, 0, 50_001)


@given(number=st.integers(1, 2000), retention_ms=st.integers(1, 200), now_ms=st.integers(900, 4000))
def test_only_what_outlives_retention_is_a_loss(number: int, retention_ms: int, now_ms: int) -> None:
    """Each lives for 100 ms: with a retention of so much none is, with less it is the oldest that has not expired."""
    loss_ms = pile(number, life_ms=100).loss_ms(now_ms, retention_ms)
    alive = [1000 + index for index in range(number) if 1100 + index > now_ms]
    assert (loss_ms is None) == (retention_ms >= 100 or not alive)
    if loss_ms is not None:
        near = 2 * number / MOST_RUNS
        assert alive[0] - near <= loss_ms - retention_ms <= alive[0]


@given(number=st.integers(1, 2000), most=st.integers(8, MOST_RUNS))
def test_it_may_be_allowed_less_memory_at_any_time(number: int, most: int) -> None:
    """The next one that is added makes it so; nothing is forgotten."""
    found = pile(number)
    found.add(number, 1000 + number, NEVER, most)
    assert len(found) <= most
    assert found.standing(0) == DeadLetterStanding(number + 1, 0, 1000)
