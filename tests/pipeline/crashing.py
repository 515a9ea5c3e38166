"""Crashes before and after each change that a rewrite makes to the files of a table."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Final

import pytest

from kafka_redelivery.pipeline.lake.files import LakeFiles

STEPS: Final = ("write", "move", "replace", "delete")


class DiedError(BaseException):
    """Not caught anywhere, so that no cleanup runs, as after SIGKILL."""


def traps(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Crash before and after the first file operation, then the second, and so on."""
    number = 0
    while True:
        for after in (False, True):
            _arm(monkeypatch, number, after=after)
            yield f"{'after' if after else 'before'} change {number}"
        number += 1


def _arm(monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
    monkeypatch.undo()
    left = [number]

    def trapped(real: Callable[..., object]) -> Callable[..., object]:
        @wraps(real)
        def call(*arguments: object) -> object:
            left[0] -= 1
            if left[0] == -1 and not after:
                raise DiedError
            answer = real(*arguments)
            if left[0] == -1:
                raise DiedError
            return answer

        return call

    for step in STEPS:
        monkeypatch.setattr(LakeFiles, step, trapped(getattr(LakeFiles, step)))
