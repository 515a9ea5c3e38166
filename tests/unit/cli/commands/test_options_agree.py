"""Options of the same name are written the same way in all commands, and a refusal says what to write."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes

CONFIG = """
group: billing
kafka: {bootstrap.servers: "127.0.0.1:1"}
sources: [{topic: orders}]
"""
DIFFERENT = {"--key", "--output", "--partitions", "--to", "--topic"}
"""A text or a property of ActiveMQ; a file, folder or table; of one topic or of all; a topic or the end of a range; a
topic or a new one."""


def _options(group: Any) -> Iterator[tuple[str, str | None]]:  # noqa: ANN401 - of the command-line library
    for command in group.commands.values():
        if hasattr(command, "commands"):
            yield from _options(command)
        for each in command.params:
            yield from ((name, each.metavar) for name in each.opts if name.startswith("--"))


def test_an_option_has_one_placeholder() -> None:
    """A time is a TIME and a duration a DURATION everywhere, so that it is written with its unit everywhere."""
    found: dict[str, set[str | None]] = defaultdict(set)
    for name, metavar in _options(typer.main.get_command(app)):
        found[name].add(metavar)
    assert {name: each for name, each in found.items() if len(each) > 1 and name not in DIFFERENT} == {}
    assert found["--wait"] == found["--every"] == found["--within"] == {"DURATION"}
    assert found["--since"] == found["--until"] == {"TIME"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("pause --wait 10", "write a number and a unit"),
        ("resume --wait soon", "write a number and a unit"),
        ("dlq summary --every 10ms", "write 100ms or more"),
        ("pause", "there is no terminal to ask on; add --all for the whole group, or name a --source"),
        ("pause --json", "add --all for the whole group"),
        ("resume", "there is no terminal to ask on; add --all for the whole group, or name a --source"),
        ("resume --all --tier 2s", "leave out --all, or --source and --tier"),
        ("dlq redrive", "add --yes to go on without a question, or --dry-run"),
        ("dlq cancel 3f9a2c01bd", "there is no terminal to ask on; add --yes to go on without a question"),
        ("pipeline erase --archive lake --key k", "add --yes to go on without a question, or --dry-run"),
        ("dlq edit DLQ.orders-0@1 --yes", "name the edited value with --file FILE"),
        ("dlq redrive --yes --create-topics", "redelivery topology apply creates the topics"),
        ("dlq show DLQ.orders-0@1 --raw value --full", "leave out --diff, --full and --json"),
        ("import-letters stomp://broker --dry-run --ca ca.pem", "write stomp+ssl://, or leave --ca out"),
        ("import-letters stomp+ssl://broker --dry-run", "name the trusted certificates with --ca FILE"),
        ("pipeline stream --until-settled 30m", "add --available-now"),
    ],
)
def test_a_refusal_says_what_to_write(tmp_path: Path, arguments: str, told: str) -> None:
    """With exit code 2, before Kafka is asked."""
    file = tmp_path / "redelivery.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    done = CliRunner().invoke(app, [*arguments.split(), "--config", str(file)])
    assert done.exit_code == exit_codes.USAGE
    assert told in " ".join(done.stderr.replace("\u2502", " ").split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--topic orders-dlt list", "add --bootstrap HOST:PORT"),
        ("--bootstrap 127.0.0.1:1 list", "--bootstrap needs --topic TOPIC"),
    ],
)
def test_another_system_needs_both_options(arguments: str, told: str) -> None:
    """The cluster and the topic."""
    done = CliRunner().invoke(app, ["dlq", *arguments.split()])
    assert done.exit_code == exit_codes.USAGE
    assert told in " ".join(done.stderr.replace("\u2502", " ").split())
