"""How test files are distributed over the processes of xdist."""

import pytest

from tests.distribution import pytest_xdist_make_scheduler

_TESTS = [
    *(f"tests/containers/test_{file}.py::test" for file in "ab"),
    *(f"tests/pipeline/test_{file}.py::test_{n}" for file in "abc" for n in range(3)),
    *(f"tests/console/test_{file}.py::test_{n}" for file in "ab" for n in range(3)),
    *(f"tests/scenarios/test_{file}.py::test_{n}" for file in "abcdef" for n in range(3)),
    *(f"tests/crash/brokers/test_{file}.py::test" for file in "ab"),
]


class _Process:
    """A process of xdist that runs nothing."""

    shutting_down = False

    def __init__(self, processes: "list[_Process]") -> None:
        self.gateway = self
        self.id = "none"
        self.processes = processes
        self.alone: set[str] = set()
        """Tests that it was given when all others had to end."""

        self.given: list[str] = []
        self.done = 0

    def send_runtest_some(self, indexes: list[int]) -> None:
        given = [_TESTS[index] for index in indexes]
        self.given += given
        if all(process.shutting_down for process in self.processes if process is not self):
            self.alone |= set(given)

    def shutdown(self) -> None:
        self.shutting_down = True


def test_files_that_share_fixtures_are_run_by_one_process(pytester: pytest.Pytester) -> None:
    """Containers, the three brokers and, while there are other files, all of the pipeline; each test is given once.

    The process that has run the containers runs the browser. The three brokers come when no other process works.
    """
    scheduler = pytest_xdist_make_scheduler(pytester.parseconfig("--tx=3*popen", "--dist=loadfile"), None)
    assert scheduler is not None
    processes: list[_Process] = []
    processes += [_Process(processes) for _ in range(3)]
    for process in processes:
        scheduler.add_node(process)
    for process in processes:
        scheduler.add_node_collection(process, _TESTS)
    scheduler.schedule()
    while any(process.done < len(process.given) for process in processes):
        for process in processes:
            if process.done < len(process.given):
                process.done += 1
                scheduler.mark_test_complete(process, _TESTS.index(process.given[process.done - 1]))

    assert sorted(test for process in processes for test in process.given) == sorted(_TESTS)
    for folder in (("tests/containers/", "tests/console/"), "tests/crash/brokers/", "tests/pipeline/"):
        (only,) = [process for process in processes if any(test.startswith(folder) for test in process.given)]
        assert [test for test in only.given if test.startswith(folder)] == [t for t in _TESTS if t.startswith(folder)]
    assert {test for process in processes for test in process.alone} >= {t for t in _TESTS if "brokers" in t}
