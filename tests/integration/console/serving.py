"""Serves an application as the console does, in a thread of the test."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import uvicorn

from kafka_redelivery.cli.console.guard import Guard
from kafka_redelivery.cli.console.server import configuration, listen
from tests.scenarios.waiting import until


class Served(NamedTuple):
    """An application that is served."""

    port: int
    server: uvicorn.Server

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self.server.server_state.connections)


@contextmanager
def served(app: Guard, tls: ssl.SSLContext | None = None, *, proxied: bool = False) -> Iterator[Served]:
    """Serve on loopback during the block."""
    config = configuration(app, tls, proxied=proxied)
    config.lifespan = "off"
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0, or_any=False) as opened:
        port = opened.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([opened],))
        thread.start()
        try:
            until(lambda: server.started, "it serves")
            yield Served(port, server)
        finally:
            server.should_exit = True
            thread.join(30)
