import logging
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kafka_redelivery.consumers.errors import CannotStartError
from kafka_redelivery.consumers.telemetry import endpoint
from kafka_redelivery.consumers.telemetry.endpoint import serve
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.config.settings import MetricsSection
from tests.scenarios.scraping import free_port, get
from tests.scenarios.waiting import until


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
        pytest.raises(CannotStartError, match=r"give each process on this machine its own metrics\.port") as caught,
        serve(MetricsSection(port=taken.getsockname()[1], host="127.0.0.1"), One(), Health()),
    ):
        pass
    assert str(caught.value).startswith("metrics: cannot listen on 127.0.0.1:")


def test_any_free_port_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log is the only place that has it."""
    with (
        caplog.at_level(logging.INFO, "kafka_redelivery.consumers.telemetry.endpoint"),
        serve(MetricsSection(port=0, host="127.0.0.1"), One(), Health()),
    ):
        [line] = caplog.messages
        assert get(int(line.rpartition(":")[2]), "/healthz") == (200, "alive\n")


def test_a_client_that_sends_a_byte_now_and_then_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on the whole request, however often the client sends."""
    monkeypatch.setattr(endpoint, "_REQUEST_TIMEOUT_S", 1.5)
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    began = time.monotonic()
    with serve(section, One(), Health()), socket.create_connection(("127.0.0.1", section.port or 0)) as slow:
        slow.settimeout(0.2)
        closed = False
        while not closed and time.monotonic() < began + 20:
            try:
                slow.sendall(b"G")
                closed = slow.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
        assert closed
        assert time.monotonic() - began > 1


def test_many_slow_clients_keep_no_probe_out() -> None:
    """A new connection ends the oldest, so there are never more threads than requests at a time."""
    section = MetricsSection(port=free_port(), host="127.0.0.1")
    port = section.port or 0
    before = threading.active_count()
    with ExitStack() as stack:
        stack.enter_context(serve(section, One(), Health()))
        for number in range(4 * endpoint._MAX_REQUESTS):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            if number % endpoint._MAX_REQUESTS == 0:
                assert get(port, "/healthz", within_s=5) == (200, "alive\n")
        assert get(port, "/healthz", within_s=5) == (200, "alive\n")
        until(
            lambda: threading.active_count() <= before + endpoint._MAX_REQUESTS + 1,
            "the threads of ended requests are gone",
        )


def test_only_a_container_listens_on_all_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The port has no password."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    mark = tmp_path / "mark"
    monkeypatch.setattr(endpoint, "_CONTAINER_FILES", (mark,))
    assert endpoint.default_host() == "127.0.0.1"
    mark.touch()
    assert endpoint.default_host() == "0.0.0.0"  # noqa: S104
    mark.unlink()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert endpoint.default_host() == "0.0.0.0"  # noqa: S104
