"""`redelivery broker` prints the address of a broker that answers, and ends in order after SIGTERM."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

# Runs this command alone, so that the rest of the command line has no part in this promise.
_COMMAND = "import typer; from kafka_redelivery.cli.commands.broker import broker; typer.run(broker)"

_NODE = re.compile(r"node (\d): (127\.0\.0\.1:\d+), process (\d+), data in .*")

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


@pytest.mark.slow
@pytest.mark.long
def test_three_nodes_of_which_one_dies(tmp_path: Path) -> None:
    """It says which process each node is, goes on without one of them, and ends in order; topics have replicas."""
    arguments = ("--nodes", "3", "--data-dir", str(tmp_path), "--heap-mb", "256", "--topic", "orders=3")
    with _start(*arguments) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        address = command.stdout.readline().strip()
        told = [_NODE.fullmatch(command.stderr.readline().strip()) for _ in range(3)]
        cluster = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=30)
        assert [node and node[1] for node in told] == ["1", "2", "3"]
        assert address == ",".join(node[2] for node in told if node)
        assert told[1] is not None
        os.kill(int(told[1][3]), signal.SIGKILL)
        command.stderr.readline()  # how to stop it
        ended = command.stderr.readline()
        left = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=30)
        command.send_signal(signal.SIGTERM)
        command.communicate(timeout=120)

    assert sorted(cluster.brokers) == [1, 2, 3]
    assert [len(partition.replicas) for partition in cluster.topics["orders"].partitions.values()] == [3, 3, 3]
    assert ended.startswith("error: node 2 ended unexpectedly; see ")
    assert "orders" in left.topics
    assert command.returncode == 0


@pytest.mark.parametrize(
    ("option", "given", "form"),
    [("--property", "message.max.bytes", "NAME=VALUE"), ("--topic", "orders=many", "NAME=PARTITIONS")],
)
def test_malformed_options_are_refused(option: str, given: str, form: str) -> None:
    """A property without a value and a topic without a number are refused before a broker starts."""
    with _start(option, given) as command:
        _, errors = command.communicate(timeout=60)

    assert command.returncode == 2
    assert form in errors
