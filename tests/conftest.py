"""What holds for every test of this repository, and the broker that tests share."""

import os
import uuid
from collections.abc import Iterator

import pytest

from transport.embedded import EmbeddedKafka

pytest_plugins = ["pytester", "tests.crash.table", "tests.scenarios.fixtures"]

_SKIPPED: list[str] = []
_IMAGES_S = 600
"""The first of the tests with containers waits for the images."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the switch between the two ways of running the tests of crashes."""
    parser.addoption(
        "--crash", action="store_true", help="run all tests of crashes and nothing else; without it, a sample of them"
    )
    parser.addoption(
        "--long", action="store_true", help="run those as well that are only about rare cases and take long"
    )
    parser.addoption(
        "--no-containers", action="store_true", help="leave out the tests that need a container engine; refused in CI"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuses to leave tests out where they count."""
    if config.getoption("no_containers") and os.environ.get("CI"):
        raise pytest.UsageError("--no-containers, and CI is set: there, what is not run is not tested")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes each test that was skipped, whichever way it was asked for."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _SKIPPED.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notes each module that was skipped as a whole while it was collected."""
    if report.skipped:
        _SKIPPED.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the session in CI if a test was skipped: there, what is not run is not tested."""
    passed = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    if passed and _SKIPPED and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says why a session without a failed test failed."""
    if _SKIPPED and os.environ.get("CI"):
        terminalreporter.write_line(f"{len(_SKIPPED)} skipped: with CI set a skipped test is a failure", red=True)
        for nodeid in _SKIPPED:
            terminalreporter.write_line(f"  {nodeid}", red=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs the broker by what it asks for, and leaves out what was not asked for: crashes, what takes long.

    Where tests run in several processes, those with containers are left out, for they share an engine:
    ``./dev test`` runs them before, in one process.
    """
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kafka)
        if "client" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.containers)
            item.add_marker(pytest.mark.timeout(_IMAGES_S))
    whole = config.getoption("crash")
    out = [
        item for item in items if (not item.get_closest_marker("crash") if whole else item.get_closest_marker("full"))
    ]
    if not config.getoption("long"):
        out += [item for item in items if item.get_closest_marker("long") and item not in out]
    if config.getoption("no_containers") or hasattr(config, "workerinput"):
        out += [item for item in items if item.get_closest_marker("containers") and item not in out]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """One running broker for the whole session; tests keep apart by ``unique`` names."""
    with EmbeddedKafka() as broker:
        yield broker


@pytest.fixture
def unique() -> str:
    """A prefix for the names of topics, groups and transactional ids that no other test has."""
    return f"t{uuid.uuid4().hex[:10]}"
