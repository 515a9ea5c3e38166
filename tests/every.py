"""One test for many cases of one check."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import pytest

Check = Callable[..., None]


def every(
    arguments: Sequence[tuple[Any, ...]], name: Callable[..., object] = lambda case: case["id"]
) -> Callable[[Check], Check]:
    """Make a check of one case a test of all of them, which lists those that differ.

    pytest takes longer to report a test than most of these cases take.

    Args:
        arguments: for each case the arguments of the check.
        name: gets the same, and returns the name of the case.
    """

    def decorate(check: Check) -> Check:
        @wraps(check)
        def test() -> None:
            assert arguments
            differ = []
            for each_case in arguments:
                try:
                    check(*each_case)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - they are listed
                    differ.append(f"{name(*each_case)}: {type(error).__name__}: {error}")
            assert not differ, f"{len(differ)} of {len(arguments)} cases differ:\n" + "\n".join(differ)

        del test.__wrapped__  # pytest would look for fixtures with the names of its arguments
        vars(test)["check"] = check
        return test

    return decorate
