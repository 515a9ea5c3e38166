"""`redelivery broker` prints the address of a broker that answers, and ends in order when it is told to."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

# The command alone, so that the rest of the command line has no part in this promise.
_COMMAND = "import typer; from cli.broker import broker; typer.run(broker)"

pytestmark = pytest.mark.kafka


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_runs_until_it_is_told_to_end(tmp_path: Path) -> None:
    """The first line is an address that answers with our property; SIGTERM ends it with exit code 0 and data kept."""
    with _start("--data-dir", str(tmp_path), "--property", "message.max.bytes=4321") as command:
        assert command.stdout is not None
        address = command.stdout.readline().strip()
        cluster = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=10)
        command.send_signal(signal.SIGTERM)
        _, told = command.communicate(timeout=60)

    assert len(cluster.brokers) == 1
    assert command.returncode == 0
    assert str(tmp_path) in told
    assert "message.max.bytes=4321" in (tmp_path / "server.properties").read_text()
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_malformed_property_is_named() -> None:
    """A property without a value is refused before anything starts."""
    with _start("--property", "message.max.bytes") as command:
        _, told = command.communicate(timeout=60)

    assert command.returncode == 2
    assert "NAME=VALUE" in told
