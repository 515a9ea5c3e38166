"""The metrics and probes of a process, read as Prometheus and Kubernetes read them."""

import os
import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from random import SystemRandom
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.scenarios.waiting import until

_WORKERS = 16
"""More processes of pytest-xdist than any run has; each has ports of its own."""

_READY_S = 60.0
"""How long a probe that must answer may take."""


def free_port() -> int:
    """Return a port on which no process listens.

    Until someone listens on it, the system gives it to no outgoing connection, and this function to no other test.
    """
    while True:
        port = next(_ports())
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


@cache
def _ports() -> Iterator[int]:
    """The ports of this process in any order; each comes again only after all others."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = list(range(20_000 + worker % _WORKERS, 32_000, _WORKERS))
    SystemRandom().shuffle(ports)
    return cycle(ports)


def get(port: int, path: str, *, host: str = "127.0.0.1", within_s: float = 10) -> tuple[int, str]:
    """Return status and text of a page; 0 and the error if there is no answer within ``within_s`` seconds."""
    try:
        with urlopen(f"http://{host}:{port}{path}", timeout=within_s) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def readiness(port: int) -> str:
    """Return the text of the readiness probe, whose status must be 200."""
    status, text = get(port, "/readyz", within_s=_READY_S)
    assert status == 200, text
    return text


def families(port: int) -> dict[str, Metric]:
    """Return the exposed metric families by name; wait for an endpoint that is still starting."""

    def scrape() -> dict[str, Metric]:
        status, text = get(port, "/metrics")
        return {family.name: family for family in text_string_to_metric_families(text)} if status == 200 else {}

    return until(scrape, f"the metrics endpoint at port {port} answers")


def value_of(port: int, sample: str, **labels: str) -> float:
    """Return the sum of a sample's values with these labels; 0 if there is none."""
    return sum(
        found.value
        for family in families(port).values()
        for found in family.samples
        if found.name == sample and labels.items() <= found.labels.items()
    )
