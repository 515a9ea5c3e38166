"""The HTTP endpoint of a process: ``/metrics``, ``/healthz`` and ``/readyz`` on one port.

Anyone who reaches the port can read it, so outside containers it listens on this machine alone. A client that sends or
reads slowly can neither hold a thread for long nor keep others out.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import EndpointError
from kafka_redelivery.consumers.telemetry.health import Health, ProbeResult
from kafka_redelivery.topology.config.settings import MetricsSection

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 10.0
"""The longest time of a request, from its connection to the end of the response."""

_MAX_REQUESTS = 32
"""How many requests are served at a time. A further one ends the oldest."""

_LOOPBACK = "127.0.0.1"
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - a container's endpoint is read from outside
_CONTAINER_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
_KUBERNETES = "KUBERNETES_SERVICE_HOST"


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request, so a slow scrape never delays a probe. Their number and their time are limited."""

    daemon_threads = True
    request_queue_size = 4 * _MAX_REQUESTS
    """Connections that wait to be accepted. When there are more, a client has to try again, after a second."""

    def server_activate(self) -> None:
        """Listen."""
        self._lock = threading.Lock()
        self._began_s: dict[socket.socket, float] = {}
        """The open connections, the oldest first, each with the time when it was accepted (monotonic)."""

        super().server_activate()

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Serve a connection in a thread of its own."""
        with self._lock:
            if len(self._began_s) >= _MAX_REQUESTS:
                oldest = next(iter(self._began_s))
                del self._began_s[oldest]
                _end(oldest)
            self._began_s[request] = monotonic_s()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End the requests that have taken too long. Called about twice a second."""
        latest_s = monotonic_s() - _REQUEST_TIMEOUT_S
        with self._lock:
            for request in [each for each, began_s in self._began_s.items() if began_s <= latest_s]:
                del self._began_s[request]
                _end(request)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Close a connection."""
        with self._lock:
            self._began_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log that a client went away, or was too slow."""
        del request
        _log.debug("a request of %s failed", client_address, exc_info=True)


def _end(request: socket.socket) -> None:
    """Wake the thread that serves a connection; it closes it."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


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
    host = section.host or default_host()
    try:
        server = make_server(host, section.port, app, _Server, _RequestHandler)
    except OSError as error:
        raise EndpointError(host, section.port, error.strerror or str(error)) from error
    _log.info("metrics and probes at http://%s:%d", host, server.server_port)
    thread = threading.Thread(target=server.serve_forever, name="endpoint", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def default_host() -> str:
    """Return the address to listen on: that of this machine alone, except in a container."""
    contained = _KUBERNETES in os.environ or any(file.exists() for file in _CONTAINER_FILES)
    return _ALL_ADDRESSES if contained else _LOOPBACK


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
