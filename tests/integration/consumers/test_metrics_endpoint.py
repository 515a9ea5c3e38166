"""The metrics of a process at its endpoint."""

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Measurements, serve_metrics
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from tests.scenarios.scraping import free_port, get


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
        port = free_port()
        settings = configured(f"{{port: {port}, host: 127.0.0.1}}")
        for _ in range(2):
            with serve_metrics(settings, "scheduler", "billing-7", Health()) as observer:
                observer.halted("cause")
                page = get(port, "/metrics")[1]
            assert 'redelivery_halts_total{group="billing",role="scheduler"} 1.0' in page
            assert 'instance="billing-7"' in page

    def test_without_a_port_nothing_is_served(self) -> None:
        """The observer still measures."""
        with serve_metrics(configured("{}"), "worker", "x", Health()) as observer:
            assert isinstance(observer, Measurements)
