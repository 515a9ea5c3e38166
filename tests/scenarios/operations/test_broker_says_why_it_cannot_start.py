"""A broker that cannot start raises one error with the location and a fix, and leaves nothing behind."""

import socket
import tempfile
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import (
    JVM_OPTIONS,
    BrokerStartError,
    EmbeddedKafka,
    PortTakenError,
)
from kafka_redelivery.transport.errors import TransportError

pytestmark = pytest.mark.kafka


def test_a_taken_port_is_named() -> None:
    """A port in use is refused before a process is started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(PortTakenError, match=f"port {port} .* is in use") as caught:
            EmbeddedKafka(port=port).start()

    assert caught.value.port == port


def test_an_early_end_shows_the_last_lines_of_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error quotes the setting that the broker refuses, and the temporary directory is removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broker = EmbeddedKafka(properties={"num.network.threads": "many"})

    with pytest.raises(BrokerStartError, match=r"many for configuration num\.network\.threads") as caught:
        broker.start()

    assert caught.value.broker_exit_code == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TransportError, match="is not running"):
        _ = broker.pid


def test_an_option_of_the_jvm_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is that of Kafka's own start script, and the error quotes an option that Java refuses."""
    monkeypatch.setenv(JVM_OPTIONS, "-XX:+UnheardOf")

    with pytest.raises(BrokerStartError, match="Unrecognized VM option 'UnheardOf'"):
        EmbeddedKafka().start()


def test_two_brokers_on_one_directory_are_refused(tmp_path: Path) -> None:
    """The second broker on a directory is refused before it changes a file; the first keeps running."""
    with EmbeddedKafka(data_dir=tmp_path) as first:
        with pytest.raises(TransportError, match=f"already runs in {tmp_path}"):
            EmbeddedKafka(data_dir=tmp_path).start()

        assert first.running
