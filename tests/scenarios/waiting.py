"""Waiting for a condition with a deadline; scenarios wait in no other way."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

LOOK_S = 0.05
LONG_S = 120.0
"""Far longer than any wait takes on an idle machine; a busy one can be thirty times as slow."""


def until(condition: Callable[[], _T], what: str, *, within_s: float = LONG_S) -> _T:
    """Return the first true answer of ``condition``.

    Raises:
        AssertionError: ``what`` did not become true within ``within_s`` seconds.
    """
    deadline = time.monotonic() + within_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last answer: {answer!r})")
        time.sleep(LOOK_S)
