import logging
import socket
import time
from collections.abc import Iterable
from datetime import timedelta

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kafka_redelivery.consumers.errors import EndpointError
from kafka_redelivery.consumers.telemetry.endpoint import serve
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.config.settings import MetricsSection
from tests.scenarios.scraping import free_port, get


class One(Collector):
    def collect(self) -> Iterable[GaugeMetricFamily]:
        yield GaugeMetricFamily("one", "One.", value=1)


def test_one_port_serves_metrics_and_both_probes() -> None:
    """A probe has status 200 or 503 and its reason."""
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    port = section.port
    assert port is not None
    health = Health()
    with serve(section, One(), health):
        assert get(port, "/healthz") == (200, "alive\n")
        assert get(port, "/readyz") == (503, "waiting for the group to assign partitions\n")
        health.joined()
        assert get(port, "/readyz") == (200, "ready\n")
        health.stopping()
        assert get(port, "/readyz") == (503, "stopping\n")
        status, page = get(port, "/metrics")
        assert (status, "one 1.0" in page) == (200, True)


def test_a_stalled_polling_thread_is_reported() -> None:
    """The endpoint has threads of its own."""
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    port = section.port
    assert port is not None
    with serve(section, One(), Health(timedelta(milliseconds=50))):
        time.sleep(0.1)
        status, reason = get(port, "/healthz")
        assert status == 503
        assert reason.startswith("the polling thread has not turned for ")


def test_a_silent_client_delays_no_probe() -> None:
    """Each request has a thread of its own."""
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    port = section.port
    assert port is not None
    with serve(section, One(), Health()), socket.create_connection(("127.0.0.1", port)):
        assert get(port, "/healthz")[0] == 200


def test_a_port_in_use_is_an_error_with_its_fix() -> None:
    """A worker and a scheduler with one configuration meet this on one machine."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(EndpointError, match=r"give each process on this machine its own metrics\.port") as caught,
        serve(MetricsSection(port=taken.getsockname()[1], host="127.0.0.1"), One(), Health()),
    ):
        pass
    assert str(caught.value).startswith(f"metrics: cannot listen on 127.0.0.1:{caught.value.port}: ")


def test_any_free_port_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log is the only place that has it."""
    with (
        caplog.at_level(logging.INFO, "kafka_redelivery.consumers.telemetry.endpoint"),
        serve(MetricsSection(port=0, host="127.0.0.1"), One(), Health()),
    ):
        [line] = caplog.messages
        assert get(int(line.rpartition(":")[2]), "/healthz") == (200, "alive\n")
