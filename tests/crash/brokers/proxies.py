"""A way to each node that the test can cut, for one process alone."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Final, Self

from tests.scenarios.scraping import free_port

HOST: Final = "127.0.0.1"
_CHUNK: Final = 65_536


class Proxy:
    """Forwards connections to a port of a node.

    Attributes:
        port: where it listens; the node advertises it to the clients that come this way.
        target: the port of the node.
    """

    def __init__(self) -> None:
        self.port: Final = free_port()
        self.target: Final = free_port()
        self._passes = threading.Event()
        self._passes.set()
        self._closed = False
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server = socket.create_server((HOST, self.port))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._passes.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            open_sockets = list(self._sockets)
        for each in open_sockets:
            _shut(each)
        for thread in self._threads:
            thread.join(10)

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Let nothing pass, no byte and no end of a connection; what was sent meanwhile passes later."""
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        self._passes.wait()
        try:
            node = socket.create_connection((HOST, self.target))
        except OSError:
            client.close()  # the node does not run
            return
        with self._lock:
            self._sockets |= {client, node}
        if self._closed:
            _shut(client)
        self._start(self._pump, client, node)
        self._pump(node, client)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._passes.wait()
                target.sendall(data)
        self._passes.wait()
        for each in (source, target):
            _shut(each)
        with self._lock:
            done = source in self._sockets
            self._sockets.discard(source)
        if done:
            source.close()

    def _start(self, run: object, *arguments: socket.socket) -> None:
        assert callable(run)
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
