"""Where the metrics are scraped."""

import socket
import urllib.request

from consumers.health import Health
from consumers.metrics import Measurements, serve_metrics
from topology.configuration import load_settings
from topology.settings import Settings


def configured(metrics: str) -> Settings:
    """A configuration with this ``metrics`` section."""
    return load_settings(
        f"""
        group: billing
        kafka: {{bootstrap.servers: "localhost:9092"}}
        sources: [{{topic: orders}}]
        metrics: {metrics}
        """
    )


class TestEndpoint:
    def test_it_is_scraped_while_the_process_runs(self) -> None:
        """And its port is free again after it."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = configured(f"{{port: {port}, host: 127.0.0.1}}")
        for _ in range(2):
            with serve_metrics(settings, "scheduler", "billing-7", Health()) as observer:
                observer.halted("cause")
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    page = answer.read().decode()
            assert 'redelivery_halts_total{group="billing",role="scheduler"} 1.0' in page
            assert 'instance="billing-7"' in page

    def test_without_a_port_there_is_none(self) -> None:
        """The measurements are made all the same."""
        with serve_metrics(configured("{}"), "worker", "x", Health()) as observer:
            assert isinstance(observer, Measurements)
