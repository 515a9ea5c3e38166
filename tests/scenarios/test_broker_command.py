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
    """The first line is the address of a broker with our property and topic; SIGTERM ends it, 0, with data kept."""
    arguments = ("--data-dir", str(tmp_path), "--property", "message.max.bytes=4321", "--topic", "orders=3")
    with _start(*arguments) as command:
        assert command.stdout is not None
        address = command.stdout.readline().strip()
        cluster = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=10)
        command.send_signal(signal.SIGTERM)
        _, told = command.communicate(timeout=60)

    assert len(cluster.brokers) == 1
    assert len(cluster.topics["orders"].partitions) == 3
    assert command.returncode == 0
    assert str(tmp_path) in told
    assert "message.max.bytes=4321" in (tmp_path / "server.properties").read_text()
    assert (tmp_path / "data" / "meta.properties").exists()


@pytest.mark.parametrize(
    ("option", "given", "form"),
    [("--property", "message.max.bytes", "NAME=VALUE"), ("--topic", "orders=many", "NAME=PARTITIONS")],
)
def test_what_is_malformed_is_named(option: str, given: str, form: str) -> None:
    """A property without a value, a topic without a number: refused before anything starts."""
    with _start(option, given) as command:
        _, told = command.communicate(timeout=60)

    assert command.returncode == 2
    assert form in told
