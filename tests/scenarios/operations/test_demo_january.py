"""The demo accounts for every record, and its figures equal those computed from the CSV files."""

from pathlib import Path

import pytest

from tests.scenarios.demo_runs import DemoRun, alive, counted


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("redrive", [False, True])
def test_the_first_days_of_january(tmp_path: Path, *, redrive: bool) -> None:
    """Exit code 0, a correct table, the independently computed figures, no early record, no process left."""
    with DemoRun(tmp_path, "--days", "3", *["--redrive"] * redrive) as demo:
        assert demo.end() == 0, demo.stderr
        found = demo.document()
        expected = counted(3, redrive=redrive)
        assert {name: found[name] for name in expected} == expected
        assert found["conservation"] == "ok"
        assert found["restarts"] == {"worker": 0, "scheduler": 0}
        late = found["lateness_ms"]
        assert late["early"] == 0
        assert 0 <= late["p50"] <= late["p99"] <= late["max"]
        unknown = found["outcomes"]["dead_lettered"]["redeliveries_exceeded"]
        assert late["count"] >= 4 * unknown + found["outcomes"]["recovered"]
        assert "every record is accounted for" in demo.stdout
        assert "✗" not in demo.stdout
        assert ("$ redelivery dlq redrive --exception UnknownPlaneError --yes" in demo.stderr) == redrive
        assert not any(alive(pid) for role in ("worker", "scheduler") if (pid := demo.pid(role)) is not None)
