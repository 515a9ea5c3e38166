"""A pytest plugin: in CI a skipped test fails the run."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Add the rule where CI is set."""
    if os.environ.get("CI"):
        config.pluginmanager.register(_NoSkips())


class _NoSkips:
    """Collects the skipped tests of one session; a test of this plugin runs a session inside another."""

    def __init__(self) -> None:
        self._skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect each skipped test."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Collect each module that was skipped during collection."""
        if report.skipped:
            self._skipped.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session, since CI must run every test."""
        passed = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
        if passed and self._skipped:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the skipped tests."""
        if self._skipped:
            terminalreporter.write_line(
                f"{len(self._skipped)} skipped: with CI set a skipped test is a failure", red=True
            )
            for nodeid in self._skipped:
                terminalreporter.write_line(f"  {nodeid}", red=True)
