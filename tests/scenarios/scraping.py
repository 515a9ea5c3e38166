"""The metrics endpoint of a process, read as Prometheus reads it."""

import socket
from urllib.request import urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.scenarios.waiting import until


def free_port() -> int:
    """Return a port on which no process listens at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def families(port: int) -> dict[str, Metric]:
    """Return the exposed metric families by name; wait for an endpoint that is still starting."""

    def scrape() -> dict[str, Metric]:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                text = page.read().decode()
        except OSError:
            return {}
        return {family.name: family for family in text_string_to_metric_families(text)}

    return until(scrape, f"the metrics endpoint at port {port} answers")


def value_of(port: int, sample: str, **labels: str) -> float:
    """Return the sum of a sample's values with these labels; 0 if there is none."""
    return sum(
        found.value
        for family in families(port).values()
        for found in family.samples
        if found.name == sample and labels.items() <= found.labels.items()
    )
