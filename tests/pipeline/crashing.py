"""Crashes before and after each step of a change to a table."""

from collections.abc import Callable, Iterator
from functools import wraps

import pytest


class DiedError(BaseException):
    """Not caught anywhere, so that no cleanup runs, as after SIGKILL."""


def traps(monkeypatch: pytest.MonkeyPatch, *steps: tuple[type, str]) -> Iterator[str]:
    """Crash before and after the first call of these methods, then the second, and so on."""
    number = 0
    while True:
        for after in (False, True):
            _arm(monkeypatch, steps, number, after=after)
            yield f"{'after' if after else 'before'} step {number}"
        number += 1


def _arm(monkeypatch: pytest.MonkeyPatch, steps: tuple[tuple[type, str], ...], number: int, *, after: bool) -> None:
    monkeypatch.undo()
    left = [number]

    def trapped(real: Callable[..., object]) -> Callable[..., object]:
        @wraps(real)
        def call(*arguments: object, **named: object) -> object:
            left[0] -= 1
            if left[0] == -1 and not after:
                raise DiedError
            answer = real(*arguments, **named)
            if left[0] == -1:
                raise DiedError
            return answer

        return call

    for kind, step in steps:
        monkeypatch.setattr(kind, step, trapped(getattr(kind, step)))
