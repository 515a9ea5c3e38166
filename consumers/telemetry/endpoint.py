"""The HTTP endpoint of a process: ``/metrics``, ``/healthz`` and ``/readyz`` on one port."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from kafka_redelivery.consumers.errors import EndpointError
from kafka_redelivery.consumers.telemetry.health import Health, ProbeResult
from kafka_redelivery.topology.config.settings import MetricsSection

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 10.0
"""The server closes a connection that sends nothing for this long."""


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request, so a slow scrape never delays a probe."""

    daemon_threads = True


class _RequestHandler(WSGIRequestHandler):
    timeout = _REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        _log.debug(format, *args)


@contextmanager
def serve(section: MetricsSection, collector: Collector, health: Health) -> Iterator[None]:
    """Serve while the block runs, if a port is configured.

    Raises:
        EndpointError: another process listens on the port, or the host is no address of this machine.
    """
    if section.port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(collector)
    app = _application(make_wsgi_app(registry), health)
    try:
        server = make_server(section.host, section.port, app, _Server, _RequestHandler)
    except OSError as error:
        raise EndpointError(section.host, section.port, error.strerror or str(error)) from error
    _log.info("metrics and probes at http://%s:%d", section.host, server.server_port)
    thread = threading.Thread(target=server.serve_forever, name="endpoint", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _application(metrics: WSGIApplication, health: Health) -> WSGIApplication:
    probes: dict[str, Callable[[], ProbeResult]] = {"/healthz": health.alive, "/readyz": health.ready}

    def respond(environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        probe = probes.get(environment["PATH_INFO"])
        if probe is None:
            return list(metrics(environment, start))
        result = probe()
        start("200 OK" if result.ok else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{result.reason}\n".encode()]

    return respond
