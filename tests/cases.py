"""A pytest plugin: in a run of all quick tests the cases of a function are one test, which lists those that fail.

pytest and xdist take longer to report a test than most cases take. A function that needs fixtures or has marks of its
own keeps its cases apart, and in every other run each case is a test.
"""

from collections import defaultdict
from inspect import iscoroutinefunction
from typing import Any

import pytest

from tests.areas import QUICK


class Cases(pytest.Item):
    """All chosen cases of a function."""

    def __init__(self, *, cases: list[pytest.Function], **more: Any) -> None:  # noqa: ANN401 - pytest's own
        super().__init__(**more)
        self._cases = cases

    def runtest(self) -> None:
        """Run each, whatever becomes of the others."""
        failed: list[BaseException] = []
        for case in self._cases:
            try:
                case.obj(**case.callspec.params)
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - they are raised together
                error.add_note(case.name)
                failed.append(error)
        if failed:
            raise BaseExceptionGroup(f"{len(failed)} of {len(self._cases)} cases", failed)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the place of the function."""
        path, line, _ = self._cases[0].reportinfo()
        return path, line, self.name


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the cases together, after all plugins have chosen tests."""
    if sorted(config.args) == sorted(QUICK):
        items[:] = together(items)


def together(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests that have all cases of a function where the first of them was."""
    found: dict[object, list[pytest.Item]] = defaultdict(list)
    for item in items:
        found[_function(item)].append(item)
    return [each[0] if len(each) == 1 else _cases(each) for each in found.values()]


def _function(item: pytest.Item) -> object:
    """Return what the cases of a function share; of anything else the test itself.

    A case is a call of its function with the values of its parameters, and nothing more.
    """
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return item
    fixtures = item.session._fixturemanager
    plain = (
        {mark.name for mark in item.iter_markers()} == {"parametrize"}
        and set(item.fixturenames) == item.callspec.params.keys()
        and not any(fixtures.getfixturedefs(name, item) for name in item.fixturenames)
        and not iscoroutinefunction(item.obj)
    )
    return (item.parent, item.originalname) if plain else item


def _cases(items: list[Any]) -> Cases:
    first = items[0]
    return Cases.from_parent(first.parent, name=first.originalname, cases=items)
