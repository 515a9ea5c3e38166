"""A client that goes away, or that asks for much and reads nothing, costs little."""

import logging
import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_redelivery.cli.console.access import LocalUser, Role, User
from kafka_redelivery.cli.console.connections import LIMITS_S, Wait
from kafka_redelivery.cli.console.pages import letters
from tests.integration.console.serving import served
from tests.integration.console.test_protection import _csrf, _login
from tests.scenarios.waiting import until
from tests.unit.cli.console.consoles import console_of, guarded


def _posted(port: int, path: str, body: bytes, length: int | None = None) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), 20)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {length or len(body)}\r\n\r\n"
    )
    opened.sendall(head.encode() + body)
    return opened


@pytest.mark.parametrize("path", ["/login", "/redrive"])
def test_a_form_that_is_cut_off_is_one_line_for_debugging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """Anyone can send a thousand of them."""
    caplog.set_level(logging.DEBUG, "kafka_redelivery.cli")
    login = _login(tmp_path) if path == "/login" else None
    with served(guarded(console_of(tmp_path, login))) as running:
        _posted(running.port, path, b"t", length=100).close()
        until(lambda: caplog.records, "it is noted", within_s=20)
    assert [each.getMessage() for each in caplog.records] == [f"POST {path}: the client went away"]
    assert not caplog.records[0].exc_info


def test_exports_that_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four are sent at a time, the others are refused after a while, and who does not read gives a turn back."""
    monkeypatch.setattr("kafka_redelivery.cli.console.console._TURN_S", 0.5)
    monkeypatch.setitem(LIMITS_S, Wait.READER, 2.0)
    monkeypatch.setattr(letters, "write_note", lambda *_: None)
    opened, ended = threading.Semaphore(0), threading.Semaphore(0)

    def lines(*_: object) -> Generator[bytes]:
        opened.release()
        try:
            while True:
                yield b"x" * 2**18
        finally:
            ended.release()

    monkeypatch.setattr(letters, "_lines", lines)
    user = LocalUser(User("ann", Role.ADMIN))
    body = f"csrf={_csrf(user)}".encode()
    with ExitStack() as stack, served(guarded(console_of(tmp_path, user))) as running:

        def export() -> socket.socket:
            return stack.enter_context(_posted(running.port, "/export", body))

        for _ in range(4):
            export()
        for _ in range(4):
            assert opened.acquire(timeout=20)
        refused = export().recv(2**16)
        assert b" 503 " in refused
        assert not opened.acquire(blocking=False)
        for _ in range(4):
            assert ended.acquire(timeout=20)
        assert b" 200 " in export().recv(2**16)
