"""The command as a whole."""

import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from cli import exit_codes
from cli.main import app


def test_version() -> None:
    """Name and version on standard output."""
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"redelivery {version('kafka-redelivery')}\n")


@pytest.mark.parametrize(
    "command",
    [[], ["worker"], ["scheduler"], ["broker"], ["topology"], ["config"], ["topology", "plan"], ["topology", "apply"],
     ["topology", "check"], ["config", "check"], ["config", "schema"], ["config", "show"]],
)  # fmt: skip
def test_every_command_explains_itself(command: list[str]) -> None:
    """``--help`` works everywhere."""
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == exit_codes.OK
    assert "Usage: " in result.stdout


def test_unknown_commands_are_wrong_usage() -> None:
    """Exit code 2, nothing on standard output."""
    result = CliRunner().invoke(app, ["topologie"])
    assert (result.exit_code, result.stdout) == (exit_codes.USAGE, "")


def test_help_loads_no_client() -> None:
    """The Kafka client and the consumers are loaded by the commands that need them, so that help is quick."""
    script = (
        "import sys\nfrom cli.main import app\ntry: app(['topology', '--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('confluent_kafka', 'consumers', 'transport') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["worker", "scheduler"])
def test_processes_refuse_a_bad_configuration(command: str) -> None:
    """Before anything is opened."""
    result = CliRunner().invoke(app, [command, "--config", "/nowhere/redelivery.yaml"])
    assert result.exit_code == exit_codes.CONFIGURATION
    assert "there is no such file" in result.stderr
