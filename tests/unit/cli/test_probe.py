import socket

import pytest
from prometheus_client import CollectorRegistry

from cli.probe import main
from consumers.endpoint import serve
from consumers.health import Health
from topology.settings import MetricsSection


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """The port that the environment names; nobody listens there yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
    monkeypatch.setenv("REDELIVERY_METRICS__PORT", str(found))
    return found


def test_the_exit_code_is_the_answer(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """0 for 200, 1 for 503, and the reason is printed."""
    health = Health()
    with serve(MetricsSection(port=port, host="127.0.0.1"), CollectorRegistry(), health):
        assert main() == 0
        assert main("/readyz") == 1
        health.joined()
        assert main("/readyz") == 0
    assert capsys.readouterr().out == "alive\nwaiting for the group to assign partitions\nready\n"


@pytest.mark.usefixtures("port")
def test_no_answer_is_no_health(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens: 1."""
    assert main() == 1
    assert capsys.readouterr().out.startswith("no answer: ")
