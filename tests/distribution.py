"""A pytest plugin that distributes the test files over the processes of xdist."""

from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

_CONTAINERS: Final = "tests/containers/"
_QUICK: Final = ("tests/unit/", "tests/parity/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Give each process one file after the other, in the order of the collection.

    The tests with containers share an engine, so they count as one file.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    scheduler = LoadFileScheduling(config, log)
    file_of = scheduler._split_scope
    scheduler._split_scope = lambda nodeid: _CONTAINERS if nodeid.startswith(_CONTAINERS) else file_of(nodeid)
    return scheduler


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests with containers, which take longest, and end with quick tests.

    So no process waits for another one at the end. Otherwise the order stays random.
    """
    items.sort(key=lambda item: (not item.nodeid.startswith(_CONTAINERS), item.nodeid.startswith(_QUICK)))
