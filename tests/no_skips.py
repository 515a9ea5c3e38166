"""A pytest plugin: in CI a skipped test fails the run."""

import os

import pytest

_SKIPPED: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect each skipped test."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _SKIPPED.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Collect each module that was skipped during collection."""
    if report.skipped:
        _SKIPPED.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session in CI if a test was skipped, since CI must run every test."""
    passed = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    if passed and _SKIPPED and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests that fail a session in CI."""
    if _SKIPPED and os.environ.get("CI"):
        terminalreporter.write_line(f"{len(_SKIPPED)} skipped: with CI set a skipped test is a failure", red=True)
        for nodeid in _SKIPPED:
            terminalreporter.write_line(f"  {nodeid}", red=True)
