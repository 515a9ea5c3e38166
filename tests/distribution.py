"""A pytest plugin that distributes the test files over the processes of xdist."""

from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.areas import QUICK

_CONTAINERS: Final = "tests/containers/"
_BROKERS: Final = "tests/crash/brokers/"
_WHOLE: Final = (_CONTAINERS, _BROKERS)
"""Folders of which one process runs all tests, since they share an engine or three brokers."""

_SPARK: Final = "tests/pipeline/"
_BROWSER: Final = "tests/console/"
_SHARING: Final = {
    _SPARK: "Spark",
    "tests/crash/": "crash",
    _CONTAINERS: "network",
    _BROWSER: "network",
    "tests/scenarios/security/": "rights",
    "tests/scenarios/dead_letters/test_sweep_forbidden.py": "rights",
}
"""What the files of a folder share, so that one process runs them.

Some of it takes long to start: a Spark session, a broker with short time-outs, and one that denies what no ACL allows.
The network is that of the machine: a browser gives up its requests when the engine adds the interface of a container,
or removes one.
"""

_LAST: Final = 2
"""A process begins its last tests when it gets more or has to end."""


class _Scheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Gives each process one file after the other, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        self._homes: dict[str, WorkerController] = {}
        """The process that has begun with what folders share."""

    def _split_scope(self, nodeid: str) -> str:
        """Make one unit of each folder that one process has to run."""
        whole = next((folder for folder in _WHOLE if nodeid.startswith(folder)), None)
        return whole or str(super()._split_scope(nodeid))

    def _reschedule(self, node: WorkerController) -> None:
        """Leave the tests with three brokers to the process that is last at work, and end the others before."""
        others = any(each is not node and not each.shutting_down for each in self.nodes)
        if list(self.workqueue) == [_BROKERS] and others and self._pending_of(self.assigned_work[node]) <= _LAST:
            node.shutdown()
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Leave folders that share something to the process that has begun with it, while there are other files."""
        own = (scope for scope in self.workqueue if self._homes.get(_shared(scope), node) is node)
        scope = next(own, next(iter(self.workqueue)))
        if shared := _shared(scope):
            self._homes.setdefault(shared, node)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Distribute by file, with the exceptions above."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return _Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with quick tests, so that a slip of the pen shows within a minute, and go on with what takes longest.

    Spark has a process to itself, and so have containers and the browser. Tests with three brokers come last, when no
    other process works: two cores are too slow for others beside them. Otherwise the order stays random.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def rank(item: pytest.Item) -> int:
        if item.nodeid.startswith(QUICK):
            return 0
        if item.nodeid.startswith(_BROKERS):
            return 4
        if item.nodeid.startswith((_CONTAINERS, _SPARK, _BROWSER)):
            return 1
        return 2 if item.path in slow else 3

    items.sort(key=rank)


def _shared(scope: str) -> str:
    """Return what a unit shares with others, or an empty text."""
    return next((shared for folder, shared in _SHARING.items() if scope.startswith(folder)), "")
