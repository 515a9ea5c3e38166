"""The benchmarks run and count correctly; sizes are too small to measure speed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_FIELDS = {
    "workload",
    "system",
    "version",
    "mode",
    "params",
    "records_per_s",
    "baseline",
    "ratio",
    "lateness_ms",
    "lost",
    "doubled",
    "rss_peak_mb",
    "header_bytes",
    "cpu_us_per_record",
    "seconds",
}
_N = 1000
_WITHIN_S = 570
"""Each takes less than half a minute on two idle cores."""


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_measures_and_loses_nothing() -> None:
    """A workload through the real command has every field, and no record is lost, doubled or early."""
    (failed_once,) = _measured("W1")
    _assert_whole(failed_once)
    assert failed_once["lateness_ms"]["count"] == _N
    assert failed_once["lateness_ms"]["early"] == 0


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_records_without_a_failure() -> None:
    """None is lost or doubled."""
    (passed,) = _measured("W0")
    _assert_whole(passed)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_workloads_of_dead_letters() -> None:
    """They are sent again, indexed and shown in the console."""
    redriven, indexed, looked = _measured("redrive", "index", "console")
    for found in (redriven, indexed):
        _assert_whole(found)
    assert len(redriven["details"]["list_s"]) == 1
    assert 0 < redriven["details"]["rate_held"] < 4000
    assert set(indexed["details"]["asked_s"]) >= {"refresh", "list", "summary"}
    assert {"flow", "failures", "letter", "job"} <= set(looked["details"]["views_ms"])
    assert all(0 < each["p50"] <= each["p95"] <= each["max"] for each in looked["details"]["views_ms"].values())


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_an_outage_with_and_without_a_dependency_and_with_spring_kafka() -> None:
    """Each record has an end in each of the systems, and with a dependency no attempt is spent."""
    found = _measured("outage")
    assert all(each["details"]["neither"] == 0 for each in found)
    assert all(each["details"]["calls"] > 0 for each in found)
    for each in found[:2]:
        assert (each["details"]["dead"], each["details"]["attempts"]) == (0, 0)
    assert (found[0]["details"]["overtaken"], found[1]["details"]["overtaken"]) == (0, 0)
    assert all(each["details"]["attempts"] > 0 for each in found[2:])
    assert len([each for each in found if "Spring" in each["params"]["system"]]) == 2


@pytest.mark.kafka
@pytest.mark.long
def test_a_group_of_many_topics_among_others() -> None:
    """Requests are counted for each role, and nothing is lost, doubled or early while a worker joins and leaves."""
    alone, among = _measured("many")
    assert among["params"]["foreign_topics"] > alone["params"]["foreign_topics"] == 0
    for found in (alone, among):
        assert (found["lost"], found["doubled"], found["lateness_ms"]["early"]) == (0, 0, 0)
        for role in ("worker", "scheduler"):
            used = found["details"]["failing"][role]
            assert used["requests"]["Fetch"] > 0
            assert used["clients"] >= 1


def _measured(*workloads: str) -> list[dict[str, Any]]:
    sizes = ["--quick", "--n", str(_N), "--repeat", "1", "--seconds", "1"]
    command = [sys.executable, "-m", "tests.bench", *workloads, *sizes, "--json"]
    root = Path(__file__).parents[2]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=_WITHIN_S)
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] | dict[str, Any] = json.loads(ran.stdout)
    return found if isinstance(found, list) else [found]  # one result is not in a list


def _assert_whole(found: dict[str, Any]) -> None:
    assert set(found) >= _FIELDS
    assert found["mode"] == "transacted"
    assert (found["lost"], found["doubled"]) == (0, 0)
    assert found["records_per_s"] > 0
    assert found["baseline"]["records_per_s"] > 0
    assert found["ratio"] > 0
