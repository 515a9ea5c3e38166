"""How `redelivery import-letters` reaches ActiveMQ: TLS faults are named, and a password in plain text is warned of."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.commands.import_letters import _address
from kafka_redelivery.cli.main import app
from kafka_redelivery.transport.activemq.queue_reader import BrokerAddress, QueueError, QueueReader
from tests.scenarios.scraping import free_port
from tests.scenarios.secured import certificate

_UNENCRYPTED = "crosses the network unencrypted; use stomp+ssl:// and --ca"


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A configuration whose cluster is not asked, because the broker is first."""
    file = tmp_path / "redelivery.yaml"
    file.write_text(
        "{group: billing, kafka: {bootstrap.servers: '127.0.0.1:1'}, sources: [{topic: orders}],"
        " handler: {callable: 'json:loads'}}",
        encoding="utf-8",
    )
    return file


@contextmanager
def _server(identity: Path | None) -> Iterator[int]:
    """A server that only shakes hands, with TLS if it has a certificate."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            if identity is None:
                self.request.sendall(b"ERROR\n\n\0")
                return
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity)
            with suppress(OSError):
                context.wrap_socket(self.request, server_side=True).close()

    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False  # the client may leave a connection open that it could not use

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _refusal(port: int, ca: Path, host: str = "127.0.0.1") -> str:
    with pytest.raises(QueueError) as refused:
        QueueReader(BrokerAddress(host=host, port=port, ca_file=str(ca)), "DLQ", None)
    return str(refused.value)


def test_no_tls_fault_is_an_absent_broker(tmp_path: Path) -> None:
    """A wrong authority or host name, no TLS at all and a file that cannot be read are named."""
    for name in ("broker", "other"):
        (tmp_path / name).mkdir()
    (authority, identity), (other, _) = certificate(tmp_path / "broker"), certificate(tmp_path / "other")
    with _server(identity) as port:
        assert "CERTIFICATE_VERIFY_FAILED" in _refusal(port, other)
        assert "Hostname mismatch" in _refusal(port, authority, "localhost")
        assert "absent.pem cannot be read" in _refusal(port, tmp_path / "absent.pem")
    with _server(None) as port:
        said = _refusal(port, authority)
        assert "check that it has TLS on this port" in said
    assert "no STOMP broker answers" not in said
    assert "no STOMP broker answers" in _refusal(free_port(), authority)


@pytest.mark.parametrize(
    ("host", "password", "warned"),
    [
        ("127.0.0.2", "hush", False),
        ("localhost", "hush", False),
        ("[::1]", "hush", False),
        ("192.0.2.1.invalid", "hush", True),
        ("broker.invalid", "hush", True),
        ("broker.invalid", None, False),
    ],
)
def test_a_password_in_plain_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, host: str, password: str | None, *, warned: bool
) -> None:
    """It is warned of, unless it stays on this machine."""
    if password is not None:
        monkeypatch.setenv("REDELIVERY_ACTIVEMQ_PASSWORD", password)
    found = _address(f"stomp://admin@{host}", None, None)
    assert (found.user, found.password) == ("admin", password)
    assert (_UNENCRYPTED in caplog.text) is warned
    assert "hush" not in caplog.text + repr(found)


def test_a_password_file_that_cannot_be_read(configuration: Path, tmp_path: Path) -> None:
    """It is an error of usage that names the option."""
    missing = ["--password-file", str(tmp_path / "absent"), "--config", str(configuration)]
    done = CliRunner().invoke(app, ["import-letters", "stomp://admin@127.0.0.1:1", "--yes", *missing])
    assert done.exit_code == 2
    assert "--password-file" in done.stderr
