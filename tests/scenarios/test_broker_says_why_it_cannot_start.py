"""A broker that cannot start says why in one error that names the place and the mend, and leaves nothing behind."""

import socket
import tempfile
from pathlib import Path

import pytest

from transport.broker_launch import BrokerStartError, DataInUseError
from transport.embedded import BrokerNotRunningError, EmbeddedKafka, PortTakenError

pytestmark = pytest.mark.kafka


def test_a_taken_port_is_named() -> None:
    """The port that was asked for and is taken is refused before anything is started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(PortTakenError, match=f"port {port} .* is taken") as caught:
            EmbeddedKafka(port=port).start()

    assert caught.value.port == port


def test_an_early_end_shows_the_last_lines_of_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A setting that the broker refuses is in the error, and the temporary directory is gone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broker = EmbeddedKafka(properties={"num.network.threads": "many"})

    with pytest.raises(BrokerStartError, match=r"many for configuration num\.network\.threads") as caught:
        broker.start()

    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BrokerNotRunningError):
        _ = broker.pid


def test_two_brokers_on_one_directory_are_refused(tmp_path: Path) -> None:
    """The second broker on a directory is refused before it touches it; the first goes on."""
    with EmbeddedKafka(data_dir=tmp_path) as first:
        with pytest.raises(DataInUseError) as caught:
            EmbeddedKafka(data_dir=tmp_path).start()

        assert caught.value.home == tmp_path
        assert first.running
