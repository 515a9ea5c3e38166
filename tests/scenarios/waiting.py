"""Waiting for something to become true, with a deadline; the only way a scenario lets time pass."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

LOOK_S = 0.05
LONG_S = 45.0
"""Far more than anything here takes on an idle machine; a shared one can be ten times as slow."""


def until(condition: Callable[[], _T], what: str, *, within_s: float = LONG_S) -> _T:
    """The first true answer of ``condition``.

    Raises:
        AssertionError: ``what`` did not come about in time.
    """
    deadline = time.monotonic() + within_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last answer: {answer!r})")
        time.sleep(LOOK_S)
