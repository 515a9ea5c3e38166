"""Runs a console: takes a port, serves, and ends on a signal."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Container
from types import FrameType

import uvicorn

from kafka_redelivery.cli.console.application import application
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.topology import exit_codes

_log = logging.getLogger(__name__)

_GRACE_S = 5
"""How long requests may take after a signal."""

_BACKLOG = 128


class PortTakenError(OSError):
    """No port could be taken."""


def listen(host: str, port: int, *, or_any: bool) -> socket.socket:
    """Return a socket that listens; on a free port if ``or_any`` and the wanted one is taken.

    Raises:
        PortTakenError: it cannot listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (port, 0) if or_any else (port,):
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it each answer waits 40 ms until the client has acknowledged its head.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            opened.bind((host, wanted))
        except OSError as error:
            opened.close()
            problem = error
        else:
            opened.listen(_BACKLOG)
            return opened
    raise PortTakenError(f"{host}:{port}: {problem.strerror or problem}")


def serve(
    console: Console,
    opened: socket.socket,
    hosts: Container[str] | None,
    certificate: str | None = None,
    key: str | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then jobs that run here end after their chunk."""
    config = uvicorn.Config(
        application(console, hosts),
        access_log=False,
        log_config=None,
        proxy_headers=False,  # who asks is the peer, whatever a header says
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        limit_concurrency=1000,
    )
    _Server(config, console).run([opened])
    if threading.active_count() > 1:
        # A thread waits for Kafka or asks the index, for an answer that is not needed any more. The end of the
        # interpreter would end it inside of a library, which then aborts the process. Jobs have stopped already.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(exit_codes.OK)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, which else never end, and then everything; at a second signal without waiting for requests.

        The signal is handled with that: the process ends with exit code 0.
        """
        del sig, frame
        self._console.broadcast.close()
        self.force_exit = self.should_exit
        self.should_exit = True
