import pytest
from prometheus_client import CollectorRegistry

from kafka_redelivery.cli.probe import main
from kafka_redelivery.consumers.telemetry.endpoint import serve
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.config.settings import MetricsSection
from tests.scenarios.scraping import free_port


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """The port named by the environment; it is closed."""
    found = free_port()
    monkeypatch.setenv("REDELIVERY_METRICS__PORT", str(found))
    return found


def test_exit_code_follows_the_answer(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """0 for status 200, 1 for 503; the reason is printed."""
    health = Health()
    with serve(MetricsSection(port=port, host="127.0.0.1"), CollectorRegistry(), health):
        assert main() == 0
        assert main("/readyz") == 1
        health.joined()
        assert main("/readyz") == 0
    assert capsys.readouterr().out == "alive\nwaiting for the group to assign partitions\nready\n"


@pytest.mark.usefixtures("port")
def test_closed_port_is_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1."""
    assert main() == 1
    assert capsys.readouterr().out.startswith("no answer: ")
