"""The metrics and probes of a process, read as Prometheus and Kubernetes read them."""

import socket
from random import SystemRandom
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.scenarios.waiting import until


def free_port() -> int:
    """Return a port on which no process listens, and which the system gives to no outgoing connection meanwhile."""
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


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
    status, text = get(port, "/readyz")
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
