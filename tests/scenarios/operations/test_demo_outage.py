"""The demo with a service that goes away in mid-run: the same figures as without, and no attempt is spent."""

from pathlib import Path

import pytest

from tests.scenarios.demo_runs import DemoRun, counted

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize("blocking", [False, True])
def test_the_book_of_flights_goes_away_and_comes_back(tmp_path: Path, *, blocking: bool) -> None:
    """A worker is killed and one is added meanwhile. Few calls are made of what is away."""
    days, options = (1, ["--blocking"]) if blocking else (3, [])
    with DemoRun(tmp_path, "--days", str(days), "--outage", "8", *options) as demo:
        assert demo.end() == 0, demo.stderr
        found = demo.document()
        expected = counted(days)
        if blocking:
            assert found["overtaken"] == 0
            for each in (found, expected):  # later flights of a late plane do not fail first
                each["outcomes"]["acked"] += each["outcomes"].pop("recovered")
        assert {name: found[name] for name in expected} == expected
        assert found["conservation"] == "ok"
        assert found["restarts"] == {"worker": 1, "scheduler": 0, "worker-2": 0}
        cost = found["outage"]
        assert (cost["dead"], cost["attempts"]) == (0, 0)
        assert 1 <= cost["calls"] <= cost["most_calls"]
        assert "✗" not in demo.stdout
        assert "full speed" in demo.stdout


def test_what_it_costs_without_a_dependency(tmp_path: Path) -> None:
    """Flights that failed once in each delay of the policy are dead letters."""
    with DemoRun(tmp_path, "--days", "3", "--outage", "30", "--without") as demo:
        assert demo.end() == 0, demo.stderr
        cost = demo.document()["outage"]
        assert cost["dead"] > 0
        assert cost["attempts"] > cost["most_calls"]
        assert cost["calls"] > cost["most_calls"]
