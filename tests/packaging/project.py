"""A user's project whose modules collide with our folders' names, and an environment with the built wheel."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_TOOLS: Final = Path(sys.executable).parent
_INSTALL_S: Final = 600
_COMMAND_S: Final = 300
"""The first command compiles all modules that it imports."""

# `consumers` holds the user's handler. This project must never import the other modules.
_HANDLER: Final = '''
"""The handler of a project."""

import os

from kafka_redelivery import Context, Record


def copy(record: Record, context: Context) -> None:
    """Emit the value, or fail once if it is 1."""
    if record.value == 1 and context.attempt == 1:
        raise ConnectionError("the first attempt fails")
    context.send(os.environ["OUTPUT"], record.value, key=record.key)
'''

_TESTS: Final = """
from consumers import billing
from kafka_redelivery import JsonCodec, RawCodec, RedeliveryPolicy


def test_the_second_attempt_succeeds(monkeypatch, redelivery_kit):
    monkeypatch.setenv("OUTPUT", "out")
    kit = redelivery_kit(
        billing.copy,
        policy=RedeliveryPolicy(maximum_redeliveries=2),
        value=JsonCodec(),
        outputs={"out": (RawCodec(), JsonCodec())},
    )
    assert [type(delivery.decision).__name__ for delivery in kit.deliver(1)] == ["Retry", "Ack"]
"""

_TRAP: Final = 'raise AssertionError(f"{__file__} was imported in place of another module of this name")\n'


def write_project(folder: Path) -> None:
    """Create the project: its handler, its tests, and names that collide with ours and with the standard library."""
    files = {
        "consumers/__init__.py": "",
        "consumers/billing.py": _HANDLER,
        "tests/test_billing.py": _TESTS,
        "pytest.ini": "[pytest]\npythonpath = .\n",
        "pipeline.py": _TRAP,
        "grp.py": _TRAP,
        **{f"{name}/__init__.py": _TRAP for name in ("cli", "serdes", "topology", "transport")},
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel from a checkout or an unpacked source distribution."""
    return _built("wheel", source, folder)


def build_sdist(source: Path, folder: Path) -> Path:
    """Build the source distribution."""
    return _built("sdist", source, folder)


def _built(target: str, source: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (found,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return found


@dataclass(frozen=True)
class Environment:
    """A virtual environment that holds the wheel and locked requirements, and nothing of this checkout."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, wheel: Path, requirements: str, *more: str) -> "Environment":
        """Install the locked requirements, ``more`` packages in the locked versions, and the wheel."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        environment = cls(folder)
        environment._install("--require-hashes", "--no-deps", "--requirements", f"requirements/{requirements}.txt")
        if more:
            environment._install("--constraints", "requirements/dev.txt", *more)
        environment._install("--no-deps", str(wheel))
        return environment

    def _install(self, *arguments: str) -> None:
        index = os.environ.get("PIP_INDEX_URL")
        chosen = {"UV_DEFAULT_INDEX": index} if index else {}
        subprocess.run(
            [str(_TOOLS / "uv"), "--quiet", "pip", "install", "--python", str(self.folder / "bin/python"), *arguments],
            cwd=ROOT,
            env={**chosen, **os.environ},
            check=True,
            timeout=_INSTALL_S,
        )

    def command(self, name: str) -> str:
        """The path of an installed command."""
        return str(self.folder / "bin" / name)

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables of this process, without those that lead back into the checkout."""
        return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}

    def run(self, folder: Path, name: str, *arguments: str) -> str:
        """Run a command in a folder, expect exit code 0, and return its standard output."""
        done = subprocess.run(
            [self.command(name), *arguments],
            cwd=folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
