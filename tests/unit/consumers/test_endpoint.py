import logging
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from datetime import timedelta

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from consumers.endpoint import serve
from consumers.errors import EndpointError
from consumers.health import Health
from topology.settings import MetricsSection


class One(Collector):
    def collect(self) -> Iterable[GaugeMetricFamily]:
        yield GaugeMetricFamily("one", "One.", value=1)


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def free_port() -> int:
    """One that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_one_port_answers_prometheus_and_both_probes() -> None:
    """Probes answer 200 or 503 with the reason; metrics are served beside them."""
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    port = section.port
    assert port is not None
    health = Health()
    with serve(section, One(), health):
        assert asked(port, "/healthz") == (200, "alive\n")
        assert asked(port, "/readyz") == (503, "waiting for the group to assign partitions\n")
        health.joined()
        assert asked(port, "/readyz") == (200, "ready\n")
        health.stopping()
        assert asked(port, "/readyz") == (503, "stopping\n")
        status, page = asked(port, "/metrics")
        assert (status, "one 1.0" in page) == (200, True)


def test_a_thread_that_hangs_is_told_by_another() -> None:
    """The endpoint answers while the polling thread does nothing, and says so."""
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    port = section.port
    assert port is not None
    with serve(section, One(), Health(timedelta(milliseconds=50))):
        time.sleep(0.1)
        status, reason = asked(port, "/healthz")
        assert status == 503
        assert reason.startswith("the polling thread has not turned for ")


def test_a_client_that_sends_nothing_holds_nobody_up() -> None:
    """A probe is answered while a connection stays silent."""
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    port = section.port
    assert port is not None
    with serve(section, One(), Health()), socket.create_connection(("127.0.0.1", port)):
        assert asked(port, "/healthz")[0] == 200


def test_a_port_that_is_taken_is_told_with_its_mend() -> None:
    """A worker and a scheduler with one configuration meet this on one machine."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(EndpointError, match=r"give each process of a machine a metrics\.port of its own") as caught,
        serve(MetricsSection(port=taken.getsockname()[1], host="127.0.0.1"), One(), Health()),
    ):
        pass
    assert str(caught.value).startswith(f"metrics: cannot listen at 127.0.0.1:{caught.value.port}: ")


def test_any_free_port_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Else nobody could ask there."""
    with (
        caplog.at_level(logging.INFO, "consumers.endpoint"),
        serve(MetricsSection(port=0, host="127.0.0.1"), One(), Health()),
    ):
        [told] = caplog.messages
        assert asked(int(told.rpartition(":")[2]), "/healthz") == (200, "alive\n")
