"""Runs deploy/compose.yaml as a user does, with its own project name, images and ports."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from docker import DockerClient
from docker.models.containers import Container

from tests.containers.kafka_image import ROOT

FILE: Final = ROOT / "deploy" / "compose.yaml"

_LONGEST_S: Final = 150
_LABEL: Final = "com.docker.compose"


class ComposeMissingError(Exception):
    """Docker Compose is not installed; the message has a fix."""

    def __init__(self) -> None:
        super().__init__(
            "no Docker Compose: install its plugin for the docker command, or run "
            "`./dev doctor --install` as root on Debian"
        )


def compose_command() -> list[str] | None:
    """Return the command of Docker Compose: the plugin, else Debian's separate program, else ``None``."""
    docker = shutil.which("docker")
    if (
        docker is not None
        and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0
    ):
        return [docker, "compose"]
    program = shutil.which("docker-compose")
    return None if program is None else [program]


class Compose:
    """A running project, created by :func:`project`."""

    def __init__(self, client: DockerClient, command: list[str], name: str, environment: Mapping[str, str]) -> None:
        self._client = client
        self._command = command
        self._name = name
        self._environment = {**os.environ, **environment}

    def __call__(self, *arguments: str) -> str:
        """Run a command and return its output.

        Raises:
            AssertionError: the command failed; the message is its output.
        """
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def containers(self) -> dict[str, Container]:
        """Return the containers by the name of their service."""
        mine = self._client.containers.list(all=True, filters={"label": f"{_LABEL}.project={self._name}"})
        return {each.labels[f"{_LABEL}.service"]: each for each in mine}


@contextmanager
def project(client: DockerClient, name: str, folder: Path, **environment: str) -> Iterator[Compose]:
    """Run a project, and remove it with its volumes at the end.

    Args:
        client: the engine.
        name: the project's name, which is part of all other names.
        folder: holds a copy of the file.
        environment: values of the variables in the file.

    Raises:
        ComposeMissingError: Docker Compose is not installed.
    """
    command = compose_command()
    if command is None:
        raise ComposeMissingError
    # The older program refuses a project name in the file; the command line gives it.
    lines = FILE.read_text(encoding="utf-8").splitlines(keepends=True)
    copy = folder / FILE.name
    copy.write_text("".join(line for line in lines if not line.startswith("name: ")), encoding="utf-8")
    command += ["--project-name", name, "--project-directory", str(FILE.parent), "--file", str(copy)]
    compose = Compose(client, command, name, environment)
    try:
        yield compose
    finally:
        for service, container in compose.containers().items():
            print(f"--- {service}\n{container.logs(tail=30).decode(errors='replace')}")  # noqa: T201 - shown with a failure
        compose("down", "--volumes", "--timeout", "5")
