"""The extra `broker` is optional: only `redelivery broker` and the jars of Spark need its packages."""

import subprocess
import sys

import pytest

from kafka_redelivery.topology import exit_codes

_PACKAGES = ("jgo", "platformdirs", "requests")

_HELP = """
import kafka_redelivery.consumers.scheduler.run
import kafka_redelivery.consumers.worker.run
from click.testing import CliRunner
from typer.main import get_command

def commands(command, path):
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, [*path, name])

whole = get_command(app)
for path in commands(whole, []):
    result = CliRunner().invoke(whole, [*path, "--help"])
    print(*path, result.exit_code)
"""


def _run_without(packages: tuple[str, ...], script: str) -> subprocess.CompletedProcess[str]:
    missing = f"import sys\nfor name in {packages!r}: sys.modules[name] = None\n"
    program = f"{missing}from kafka_redelivery.cli.main import app\n{script}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_worker_scheduler_and_help_work_without_the_extra() -> None:
    """Import both processes and print the help of every command while the three packages are missing."""
    done = _run_without(_PACKAGES, _HELP)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {"worker 0", "scheduler 0", "broker 0", "topology apply 0", "pipeline report 0"} <= set(lines)
    assert [line for line in lines if not line.endswith("0")] == []


@pytest.mark.parametrize("package", _PACKAGES)
def test_broker_names_the_missing_package_and_how_to_install_it(package: str) -> None:
    """The error is one line with exit code 1, not a traceback."""
    done = _run_without((package,), "app(['broker'])")
    assert (done.returncode, done.stdout) == (exit_codes.FAILED, "")
    assert done.stderr == (
        f"error: the embedded Kafka broker and Spark jobs fetch jars with the Python package {package}, which is not "
        "installed; install it with: pip install 'kafka-redelivery[broker]', in a checkout pip install '.[broker]'\n"
    )
