"""A real Prometheus on a free port that scrapes and evaluates every second."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from kafka_redelivery.transport.broker.guard import GuardedProcess
from tests.monitoring.expressions import ROOT, RULES, Expression
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import LONG_S, until

_JOB = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]["job_name"]


@dataclass(frozen=True, slots=True)
class Series:
    """A series of a result."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]
    """Epoch seconds and value."""


class Prometheus:
    """A running Prometheus, queried over its API."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ready(self) -> bool:
        """Return whether it responds."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, text: str, at: float) -> list[Series]:
        """Return the result at one time (epoch seconds)."""
        found = self._get("query", query=text, time=f"{at:.3f}")
        return [Series(each["metric"], [_point(each["value"])]) for each in found]

    def ask_range(self, text: str, start: float, end: float) -> list[Series]:
        """Return the results for each second of a range."""
        found = self._get("query_range", query=text, start=f"{start:.3f}", end=f"{end:.3f}", step="1")
        return [Series(each["metric"], [_point(value) for value in each["values"]]) for each in found]

    def answer(self, expression: Expression, start: float, end: float, at: float) -> list[Series]:
        """Return the data of a panel: a range, or a single time for a table."""
        return self.ask(expression.text, at) if expression.instant else self.ask_range(expression.text, start, end)

    def fired(self) -> set[str]:
        """Return the alerts that have fired so far."""
        found = self.ask('max_over_time(ALERTS{alertstate="firing"}[30m])', self.now())
        return {series.labels["alertname"] for series in found}

    def rules(self) -> list[Any]:
        """Return the loaded rule groups."""
        with urlopen(f"http://127.0.0.1:{self._port}/api/v1/rules", timeout=60) as page:
            groups: list[Any] = json.load(page)["data"]["groups"]
            return groups

    def now(self) -> float:
        """Return the time of its clock."""
        return float(self._get("query", query="time()")[0])

    def _get(self, what: str, **parameters: str) -> list[Any]:
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/api/v1/{what}?{urlencode(parameters)}", timeout=60) as page:
                answer: list[Any] = json.load(page)["data"]["result"]
                return answer
        except HTTPError as error:
            raise AssertionError(f"{parameters['query']}: {error.read().decode()}") from None


def _point(value: Sequence[Any]) -> tuple[float, float]:
    return float(value[0]), float(value[1])


@contextmanager
def running(folder: Path, ports: Sequence[int]) -> Iterator[Prometheus]:
    """Run Prometheus with our rules, scraping these ports of this machine.

    Alerts fire immediately; promtool tests how long they wait.
    """
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("prometheus is missing: install it (Debian: apt-get install prometheus)")
    for path in RULES:
        text = re.sub(r"^( +for: )\w+$", r"\g<1>0s", path.read_text(), flags=re.MULTILINE)
        (folder / path.name).write_text(text)
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [path.name for path in RULES],
        "scrape_configs": [
            {"job_name": _JOB, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    command = [
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        child = GuardedProcess(command, grace_seconds=5, stdout=log, stderr=log)
    try:
        found = Prometheus(port)
        until(found.ready, "Prometheus is ready")
        yield found
    finally:
        child.terminate()
        child.wait(LONG_S)
