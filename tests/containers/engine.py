"""The container engine of the tests: a running one, else one that the tests start and stop.

A test run never installs anything; it starts what is installed.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import docker
from docker.errors import DockerException

from kafka_redelivery.transport.broker.guard import GuardedProcess
from kafka_redelivery.transport.broker.jars import cache_directory

_START_S: Final = 180.0
_STOP_S: Final = 20.0
_LOOK_S: Final = 0.1
_LEAVE_OUT: Final = "`./dev verify --no-containers` skips the tests with containers"


class EngineMissingError(Exception):
    """No container engine answers, and none can be started; the message has a fix."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"no container engine: {problem}. Start Docker, or give your user the right to use it, or run "
            f"`./dev doctor --install` as root on Debian; {_LEAVE_OUT}"
        )


def answers() -> bool:
    """Return whether an engine answers at ``DOCKER_HOST`` or at the usual socket."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if host.startswith("unix://") and not _listens(host.removeprefix("unix://")):
        return False
    try:
        client = docker.from_env(timeout=10)
    except DockerException:
        return False
    with contextlib.closing(client):
        try:
            return client.ping()
        except (DockerException, OSError):
            return False


@contextlib.contextmanager
def engine() -> Iterator[None]:
    """Provide an engine for the block. One that is started here keeps its images in the project's cache.

    Raises:
        EngineMissingError: none answers and none can be started.
    """
    if answers():
        yield
        return
    program = shutil.which("dockerd")
    if program is None:
        raise EngineMissingError("none is running, and no dockerd is installed")
    if os.geteuid() != 0:
        raise EngineMissingError("none is running, and only root can start dockerd")
    with (
        tempfile.TemporaryDirectory(prefix="redelivery-engine-") as folder,
        _without_mounts(Path(folder)),
        _started(program, Path(folder)) as address,
    ):
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = f"unix://{address}"
        try:
            yield
        finally:
            del os.environ["DOCKER_HOST"]
            if before is not None:
                os.environ["DOCKER_HOST"] = before


@contextlib.contextmanager
def _without_mounts(folder: Path) -> Iterator[None]:
    """Unmount what dockerd leaves mounted below the folder, such as a container's network namespace if it is killed."""
    try:
        yield
    finally:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
        below = [mount for mount in mounts if Path(mount).is_relative_to(folder)]
        if below:
            subprocess.run([shutil.which("umount") or "umount", "--lazy", *reversed(below)], check=False)


@contextlib.contextmanager
def _started(program: str, folder: Path) -> Iterator[Path]:
    data = cache_directory() / "engine"
    data.mkdir(parents=True, exist_ok=True)
    address, log = folder / "docker.sock", folder / "log"
    command = [
        program,
        "--storage-driver=overlay2",
        f"--data-root={data}",
        f"--exec-root={folder / 'exec'}",
        f"--pidfile={folder / 'pid'}",
        f"--host=unix://{address}",
    ]
    with log.open("wb") as output:
        # The guard gives dockerd the time to stop its containerd, also if this process is killed.
        daemon = GuardedProcess(command, grace_seconds=_STOP_S, stdout=output, stderr=output)
    try:
        _await(daemon, address, log)
        yield address
    finally:
        daemon.terminate()
        try:
            daemon.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _await(daemon: GuardedProcess, address: Path, log: Path) -> None:
    end = time.monotonic() + _START_S
    # The socket accepts connections once dockerd is ready.
    while not _listens(str(address)):
        if daemon.poll() is not None or time.monotonic() > end:
            tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise EngineMissingError(f"dockerd does not start:\n{tail}\n")
        time.sleep(_LOOK_S)


def _listens(path: str) -> bool:
    """Return whether a process listens. Checked before a client is made, which would leave its socket open."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0
