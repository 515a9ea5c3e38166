"""SIGKILL of the worker and of the scheduler in the middle of the demo changes nothing in its table."""

from pathlib import Path

import pytest

from tests.scenarios.demo_runs import DemoRun, counted
from tests.scenarios.waiting import until

_LONG_S = 180.0


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.full
@pytest.mark.timeout(600)
def test_both_are_killed_in_the_middle(tmp_path: Path) -> None:
    """Both are restarted, and every record has the outcome that it has without a kill."""
    with DemoRun(tmp_path, "--days", "3") as demo:

        def kill_when(topic: str, *roles: str) -> None:
            """Kill them once the topic has a record, and wait until their successors run."""
            until(lambda: demo.process.poll() is not None or demo.holds(topic), f"records in {topic}", within_s=_LONG_S)
            assert demo.process.poll() is None, demo.stderr
            killed = {role: demo.kill(role) for role in roles}
            until(lambda: all(demo.pid(role) != pid for role, pid in killed.items()), "their successors run")

        kill_when("seat_miles", "worker")  # while flights have their first delivery
        kill_when("seat-miles.ready.flights", "scheduler")  # while it releases records
        kill_when("seat-miles.retry.2s", "worker", "scheduler")  # both, while records wait
        kill_when("seat-miles.retry.4s", "worker")  # again, now that it has redelivered records

        assert demo.end() == 0, demo.stderr
        found = demo.document()
        assert {name: found[name] for name in ("records_in", "outcomes", "seat_miles")} == counted(3)
        assert found["conservation"] == "ok"
        assert found["restarts"] == {"worker": 3, "scheduler": 2}
        assert found["lateness_ms"]["early"] == 0
        assert "killed and restarted: worker 3 times, scheduler 2 times" in demo.stdout
