"""The metrics of a process at its endpoint."""

import socket
import urllib.request

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Measurements, serve_metrics
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings


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
    def test_metrics_are_served_while_the_process_runs(self) -> None:
        """Afterwards the port is free again."""
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

    def test_without_a_port_nothing_is_served(self) -> None:
        """The observer still measures."""
        with serve_metrics(configured("{}"), "worker", "x", Health()) as observer:
            assert isinstance(observer, Measurements)
