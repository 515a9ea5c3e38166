"""A pytest plugin that prints tables of crash tests at the end of a run, also of tests run by xdist workers."""

from typing import Final, NamedTuple

import pytest


class _Row(NamedTuple):
    """A row of the table of kill points."""

    point: str
    mode: str
    lost: int
    doubled: int
    seconds: float


class _BrokerRow(NamedTuple):
    """A row of the table of failing nodes."""

    what: str
    records: int
    lost: int
    doubled: int
    early: int
    disordered: int
    seconds: float


_ROWS: Final[list[_Row]] = []
_BROKER_ROWS: Final[list[_BrokerRow]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the results that a test recorded, in whichever process it ran."""
    if report.when == "call":
        _ROWS.extend(_Row(*value) for name, value in report.user_properties if name == "crash")  # type: ignore[misc]
        _BROKER_ROWS.extend(_BrokerRow(*value) for name, value in report.user_properties if name == "broker")  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables."""
    if _ROWS:
        _kill_points(terminalreporter)
    if _BROKER_ROWS:
        _nodes(terminalreporter)


def _kill_points(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("kill points")
    width = max(len(row.point) for row in _ROWS)
    terminalreporter.write_line(f"{'kill point':{width}}  lost  doubled  seconds")
    for row in sorted(_ROWS):
        terminalreporter.write_line(f"{row.point:{width}}  {row.lost:4}  {row.doubled:7}  {row.seconds:7.1f}")
    others = sum(row.mode != "transacted" for row in _ROWS)
    lost = sum(row.lost for row in _ROWS)
    doubled = sum(row.doubled for row in _ROWS if row.mode == "transacted")
    terminalreporter.write_line(
        f"{len(_ROWS)} kill points: lost {lost}, doubled {doubled}"
        + (f" (without the {others} of modes that are at least once)" if others else "")
    )


def _nodes(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("failing nodes of three")
    width = max(len(row.what) for row in _BROKER_ROWS)
    terminalreporter.write_line(f"{'what':{width}}  records  lost  doubled  early  out of order  seconds")
    for row in sorted(_BROKER_ROWS):
        terminalreporter.write_line(
            f"{row.what:{width}}  {row.records:7}  {row.lost:4}  {row.doubled:7}  {row.early:5}  {row.disordered:12}"
            f"  {row.seconds:7.1f}"
        )
