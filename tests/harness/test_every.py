"""A test of many cases fails if one of them differs, and names it."""

import pytest

from tests.every import every


@every([(2,), (3,), (4,)], str)
def _is_even(number: int) -> None:
    assert number % 2 == 0


def test_the_cases_that_differ_are_named() -> None:
    """All cases are checked, also those after one that differs."""
    with pytest.raises(AssertionError, match=r"(?s)1 of 3 cases differ:\n3: AssertionError"):
        _is_even()


def test_a_refusal_that_is_missing_differs() -> None:
    """``pytest.raises`` fails with an exception of its own kind."""

    @every([(0,)], str)
    def refuses(_: int) -> None:
        with pytest.raises(ValueError, match="refused"):
            pass

    with pytest.raises(AssertionError, match="1 of 1 cases differ"):
        refuses()


def test_no_cases_are_no_proof() -> None:
    """A recording that is empty is noticed."""

    @every([], str)
    def unused() -> None:
        """Is never called."""

    with pytest.raises(AssertionError):
        unused()
