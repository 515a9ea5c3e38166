"""The table of what became of each kill point, at the end of a run. A plugin: tests may run in other processes."""

from typing import Final, NamedTuple

import pytest


class _Row(NamedTuple):
    """A line of the table."""

    point: str
    mode: str
    lost: int
    doubled: int
    seconds: float


_ROWS: Final[list[_Row]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes what a test says of its kill point, whichever process it ran in."""
    if report.when == "call":
        _ROWS.extend(_Row(*value) for name, value in report.user_properties if name == "crash")  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what became of each kill point."""
    if not _ROWS:
        return
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
