"""Each reader of foreign bytes gets some changed examples; ``python -m tests.fuzz`` gives it many."""

import pytest

from tests.fuzz.__main__ import run
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_some_inputs(target: Target) -> None:
    """They are read, or refused with an error of ours."""
    inputs, accepted, _, faults = run(target, 400, 60, seed=1)
    assert (inputs, faults) == (400, [])
    assert accepted > 0
