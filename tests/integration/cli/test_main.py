"""The `redelivery` command as a whole."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

from kafka_redelivery.cli.main import _COMMANDS, app
from kafka_redelivery.topology import exit_codes


def test_version() -> None:
    """It prints name and version on standard output."""
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"redelivery {version('kafka-redelivery')}\n")


@pytest.mark.parametrize(
    "command",
    [[], ["worker"], ["scheduler"], ["broker"], ["topology"], ["config"], ["topology", "plan"], ["topology", "apply"],
     ["topology", "check"], ["config", "check"], ["config", "schema"], ["config", "show"]],
)  # fmt: skip
def test_every_command_has_help(command: list[str]) -> None:
    """``--help`` prints the usage and ends with 0."""
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == exit_codes.OK
    assert "Usage: " in result.stdout


def test_unknown_command_is_a_usage_error() -> None:
    """Exit code 2, nothing on standard output."""
    result = CliRunner().invoke(app, ["topologie"])
    assert (result.exit_code, result.stdout) == (exit_codes.USAGE, "")


@pytest.mark.parametrize(
    ("command", "without"),
    [
        (["topology"], ("consumers", "topology.migration")),
        ([], ("cli.commands", "consumers", "pipeline", "serdes", "topology.config", "transport")),
    ],
    ids=["group", "top"],
)
def test_help_imports_little(command: list[str], without: tuple[str, ...]) -> None:
    """So it is quick: help of a group imports no Kafka client, and that of all commands none of them nor pydantic."""
    script = (
        "import sys\nfrom kafka_redelivery.cli.main import app\n"
        f"try: app([*{command}, '--help'])\nexcept SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(done.stdout.splitlines()[-1].split())
    others = {"confluent_kafka", "defusedxml"} | ({"pydantic"} if not command else set())
    assert imported & ({f"kafka_redelivery.{name}" for name in without} | others) == set()


def test_help_says_of_each_command_what_it_says_of_itself() -> None:
    """The line of ``redelivery --help`` is the first sentence of the command."""
    group = typer.main.get_command(app)
    listed = dict(_COMMANDS)
    assert {name: command.help.partition("\n\n")[0] for name, command in group.commands.items()} == {  # type: ignore[attr-defined]
        name: summary for name, (_, summary) in listed.items()
    }


@pytest.mark.parametrize("command", ["worker", "scheduler", "sweep"])
def test_processes_refuse_a_bad_configuration(command: str) -> None:
    """Before they open a connection."""
    result = CliRunner().invoke(app, [command, "--config", "/nowhere/redelivery.yaml"])
    assert result.exit_code == exit_codes.CONFIGURATION
    assert "there is no such file" in result.stderr


def test_help_lists_the_exit_codes() -> None:
    """One code per line."""
    lines = [line.strip() for line in CliRunner().invoke(app, ["--help"]).stdout.splitlines()]
    listed = lines[lines.index("Exit codes") + 1 :]
    assert listed[: len(exit_codes.MEANINGS)] == [f"{code} {text}" for code, text in exit_codes.MEANINGS.items()]


@pytest.mark.parametrize(
    ("command", "flags", "variable", "level"),
    [
        ("worker", [], None, "INFO"),
        ("scheduler", ["--log-level", "debug"], None, "DEBUG"),
        ("worker", [], "WARNING", "WARNING"),
        ("scheduler", ["--log-level", "ERROR"], "debug", "ERROR"),
    ],
)
def test_log_level(command: str, flags: list[str], variable: str | None, level: str) -> None:
    """INFO by default; the variable overrides it, and the flag both. The variable is no configuration fault."""
    script = (
        "import logging\nfrom kafka_redelivery.cli.main import app\n"
        f"try: app({[command, '--config', '/nowhere/redelivery.yaml', *flags]!r})\nexcept SystemExit: pass\n"
        "print(logging.getLevelName(logging.getLogger().level))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDELIVERY_")}
    if variable is not None:
        environment["REDELIVERY_LOG_LEVEL"] = variable
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == level


@pytest.mark.parametrize("command", [["console"], ["pipeline", "archive", "--output", "letters"]])
def test_what_runs_for_long_has_a_log_for_machines(command: list[str]) -> None:
    """The console and the archive that follows log warnings by default, as text or as JSON."""
    script = (
        "import logging\nfrom kafka_redelivery.cli.main import app\n"
        f"try: app({[*command, '--config', '/nowhere/redelivery.yaml', '--log-format', 'json']!r})\n"
        "except SystemExit: pass\n"
        "root = logging.getLogger()\n"
        "print(logging.getLevelName(root.level), type(root.handlers[0].formatter).__name__)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDELIVERY_")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == "WARNING JsonFormatter"


def test_unknown_log_level_is_a_usage_error() -> None:
    """It is not replaced by another level."""
    assert CliRunner().invoke(app, ["worker", "--log-level", "loud"]).exit_code == exit_codes.USAGE
