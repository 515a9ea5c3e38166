"""The HTTP endpoint of a process: ``/metrics``, ``/healthz`` and ``/readyz`` on one port.

Anyone who reaches the port can read it, so outside containers it listens on this machine alone. A client that sends or
reads slowly can neither hold a thread for long nor keep others out.

The metrics are prometheus-client's own application. Its server, ``start_http_server``, is not used: it answers every
path with metrics, so the probes would need a second port, and it never closes an idle connection nor limits their
number; 300 silent clients keep 300 threads (version 0.26).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_asgi_app, make_wsgi_app
from prometheus_client.registry import Collector

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import CannotStartError
from kafka_redelivery.consumers.telemetry.health import ProbeResult
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
_TEXT: Final = "text/plain; charset=utf-8"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request, so a slow scrape never delays a probe. Their number and their time are limited."""

    daemon_threads = True
    request_queue_size = 4 * _MAX_REQUESTS
    """Connections that wait to be accepted. When there are more, a client has to try again, after a second."""

    def server_activate(self) -> None:
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
def serve(section: MetricsSection, collector: Collector, health: Probed) -> Iterator[None]:
    """Serve while the block runs, if a port is configured.

    Raises:
        CannotStartError: another process listens on the port, or the host is no address of this machine.
    """
    if section.port is None:
        yield
        return
    app = wsgi_application(collector, health)
    host = section.host or default_host()
    try:
        server = make_server(host, section.port, app, _Server, _RequestHandler)
    except OSError as error:
        raise CannotStartError(
            f"metrics: cannot listen on {host}:{section.port}: {error.strerror or error}; give each process on this "
            "machine its own metrics.port (0 = any free port), or set metrics.host to an address of this machine"
        ) from error
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


class Probed(Protocol):
    """What probes ask."""

    def alive(self) -> ProbeResult:
        """See :meth:`Health.alive`."""
        ...

    def ready(self) -> ProbeResult:
        """See :meth:`Health.ready`."""
        ...


def wsgi_application(collector: Collector, health: Probed) -> WSGIApplication:
    """Return an application that answers ``/metrics``, ``/healthz`` and ``/readyz``."""
    metrics = make_wsgi_app(_registry(collector))
    probes = _probes(health)

    def respond(environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        probe = probes.get(environment["PATH_INFO"])
        if probe is None:
            return list(metrics(environment, start))
        result = probe()
        start("200 OK" if result.ok else "503 Service Unavailable", [("Content-Type", _TEXT)])
        return [f"{result.reason}\n".encode()]

    return respond


def asgi_application(collector: Collector, health: Probed) -> ASGIApplication:
    """Return the same for a server with an event loop. It may be mounted below a path."""
    metrics = make_asgi_app(_registry(collector))
    probes = _probes(health)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        probe = probes.get(str(scope.get("path", "")).removeprefix(str(scope.get("root_path", ""))))
        if probe is None:
            await metrics(scope, receive, send)
            return
        result = probe()
        headers = [(b"content-type", _TEXT.encode())]
        await send({"type": "http.response.start", "status": 200 if result.ok else 503, "headers": headers})
        await send({"type": "http.response.body", "body": f"{result.reason}\n".encode()})

    return respond


def _registry(collector: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def _probes(health: Probed) -> Mapping[str, Callable[[], ProbeResult]]:
    return {"/healthz": health.alive, "/readyz": health.ready}
