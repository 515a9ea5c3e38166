"""`redelivery broker` prints the address of a broker that answers, and ends in order after SIGTERM."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology.exit_codes import USAGE

# Runs this command alone, so that the rest of the command line has no part in this promise.
_COMMAND = "import typer; from kafka_redelivery.cli.commands.broker import broker; typer.run(broker)"

pytestmark = pytest.mark.kafka


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_runs_until_sigterm(tmp_path: Path) -> None:
    """The first line is the address of a broker with the property and topic; SIGTERM ends it with 0, data kept."""
    arguments = ("--data-dir", str(tmp_path), "--property", "message.max.bytes=4321", "--topic", "orders=3")
    with _start(*arguments) as command:
        assert command.stdout is not None
        address = command.stdout.readline().strip()
        cluster = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=60)
        command.send_signal(signal.SIGTERM)
        _, errors = command.communicate(timeout=60)

    assert len(cluster.brokers) == 1
    assert len(cluster.topics["orders"].partitions) == 3
    assert command.returncode == 0
    assert str(tmp_path) in errors
    assert "message.max.bytes=4321" in (tmp_path / "server.properties").read_text()
    assert (tmp_path / "data" / "meta.properties").exists()


def test_it_ends_with_the_broker(tmp_path: Path) -> None:
    """If the broker dies, the command fails and names the log."""
    with _start("--data-dir", str(tmp_path)) as command:
        assert command.stdout is not None
        command.stdout.readline()
        [java] = [each for each in psutil.Process(command.pid).children(recursive=True) if each.name() == "java"]
        java.kill()
        _, errors = command.communicate(timeout=60)

    assert command.returncode == 1
    assert f"error: the broker ended unexpectedly; see {tmp_path / 'broker.log'}" in errors


def test_another_version_runs() -> None:
    """With `--version` the class path of the broker is of that version."""
    with _start("--version", "4.3.1") as command:
        assert command.stdout is not None
        address = command.stdout.readline().strip()
        AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=60)
        [java] = [each for each in psutil.Process(command.pid).children(recursive=True) if each.name() == "java"]
        class_path = java.cmdline()[java.cmdline().index("-cp") + 1]
        command.send_signal(signal.SIGTERM)
        command.communicate(timeout=60)

    assert "kafka_2.13-4.3.1.jar" in class_path
    assert command.returncode == 0


@pytest.mark.parametrize(
    ("option", "given", "form"),
    [
        ("--property", "message.max.bytes", "NAME=VALUE"),
        ("--topic", "orders=many", "NAME=PARTITIONS"),
        ("--version", "../4.3.1", "a version such as"),
    ],
)
def test_malformed_options_are_refused(option: str, given: str, form: str) -> None:
    """A property without a value, a topic without a number and no version are refused before a broker starts."""
    done = CliRunner().invoke(app, ["broker", option, given])

    assert done.exit_code == USAGE
    assert form in done.stderr
