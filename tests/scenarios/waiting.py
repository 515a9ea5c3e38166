"""Waiting for a condition with a deadline; scenarios wait in no other way."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

LOOK_S = 0.05
"""The first pause between two looks at a condition."""

_LONGEST_PAUSE_S = 0.25
"""Many conditions read topics; to look at them all the time would take a core."""

LONG_S = 120.0
"""Far longer than any wait takes on an idle machine; a busy one can be thirty times as slow."""


def until(condition: Callable[[], _T], what: str, *, within_s: float = LONG_S) -> _T:
    """Return the first true answer of ``condition``.

    Raises:
        AssertionError: ``what`` did not become true within ``within_s`` seconds.
    """
    began = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited = time.monotonic() - began
        if waited > within_s:
            raise AssertionError(f"not within {within_s:g} s: {what} (last answer: {answer!r})")
        time.sleep(min(max(LOOK_S, waited / 10), _LONGEST_PAUSE_S))
