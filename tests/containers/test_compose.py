"""The compose file runs: the flights end as their data says, Prometheus scrapes, and all services stop in order."""

import time
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from docker import DockerClient

from tests.containers.compose import project
from tests.containers.prometheus_image import prometheus_image
from tests.containers.worker_image import console_image, flights_image
from tests.monitoring.expressions import RULES
from tests.monitoring.prometheus import Prometheus
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

_ANSWER_S = 30.0
_SHORTEST_GRACE_S = 10
"""Docker's grace period in seconds for services without one in the file."""


def _await_failure(port: int, exception: str) -> None:
    """Log in to the console with the demo's token, and wait until its failures have this exception."""
    opener = build_opener(HTTPCookieProcessor())
    address = f"http://127.0.0.1:{port}"
    refused = opener.open(f"{address}/failures", timeout=_ANSWER_S)
    assert refused.url.endswith("/login?next=%2Ffailures")
    form = urlencode({"token": "flights-demo-console", "next": "/failures"}).encode()
    opener.open(f"{address}/login", form, timeout=_ANSWER_S).close()

    def shown() -> bool:
        with opener.open(f"{address}/failures", timeout=_ANSWER_S) as answer:
            return exception.encode() in answer.read()

    until(shown, f"the console shows {exception}")


@pytest.mark.long
def test_the_flights_demo_runs_in_compose(
    client: DockerClient, kafka_image: str, worker_image: str, unique: str, tmp_path: Path
) -> None:
    """All services but Grafana run, since no local image can replace it: none is killed, no record is missing."""
    port, console_port = free_port(), free_port()
    with project(
        client,
        unique,
        tmp_path,
        KAFKA_IMAGE=kafka_image,
        WORKER_IMAGE=worker_image,
        CONSOLE_IMAGE=console_image(client),
        FLIGHTS_IMAGE=flights_image(client),
        PROMETHEUS_IMAGE=prometheus_image(client),
        KAFKA_PORT=str(free_port()),
        PROMETHEUS_PORT=str(port),
        CONSOLE_PORT=str(console_port),
        FLIGHTS_DAYS="1",
    ) as compose:
        compose("up", "--detach", "--no-build", "worker", "scheduler", "prometheus", "console")
        # Send each flight once and wait until all have ended; exit code 0 means that the topics agree with the CSV
        # files.
        said = compose("run", "--rm", "-T", "flights", "check")
        assert "conservation: every record is accounted for" in said

        compose("up", "--detach", "--no-build", "--no-deps", "flights")
        prometheus = Prometheus(port)
        assert {group["name"] for group in prometheus.rules()} == {f"redelivery_{path.stem}" for path in RULES}
        assert all(rule["health"] == "ok" for group in prometheus.rules() for rule in group["rules"])

        def fed() -> bool:
            """Both are scraped, and flights sent after the check have been delivered."""
            roles = {series.labels["role"] for series in prometheus.ask("redelivery_build_info", time.time())}
            acked = prometheus.ask('sum(redelivery_deliveries_total{outcome="acked"})', time.time())
            return roles == {"worker", "scheduler"} and bool(acked) and acked[0].points[0][1] > 700

        until(fed, "Prometheus has metrics of both")
        _await_failure(console_port, "UnknownPlaneError")

        begun = time.monotonic()
        compose("stop")
        assert time.monotonic() - begun < 4 * _SHORTEST_GRACE_S
        ended = {name: each.attrs["State"]["ExitCode"] for name, each in compose.containers().items()}
        assert ended == {
            "kafka": 143,
            **dict.fromkeys(("topics", "topology", "worker", "scheduler", "console", "flights", "prometheus"), 0),
        }
