"""The image of deploy/Dockerfile, as a user builds it; where no registry is in reach, on a Debian with the wheels."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from docker import DockerClient

from tests.containers.base_image import PYTHON, base_image
from tests.containers.context import Context, built
from tests.containers.kafka_image import ROOT, download
from transport.jars import cache_directory

CHOSEN_BASE: Final = "TEST_BASE_IMAGE"
"""The environment variable with the image to build on, as in ``python:3.13-slim``. Its pip fetches the packages."""

_LOCKS: Final = (ROOT / "requirements" / "build.txt", ROOT / "requirements" / "runtime.txt")
_PACKAGES: Final = ("cli", "consumers", "pipeline", "serdes", "topology", "transport")
_BUILDER: Final = b"""
ARG BASE
FROM ${BASE}
COPY wheels /wheels
ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
"""


def worker_image(client: DockerClient) -> str:
    """The tag of the image, made unless it is there.

    Raises:
        ImageMissingError: there is nothing to build it on.
        subprocess.CalledProcessError: a wheel cannot be had.
    """
    chosen = os.environ.get(CHOSEN_BASE)
    if chosen:
        return built(client, "redelivery-test", _context(), BASE=chosen)
    base = base_image(client)
    builder = built(client, "redelivery-builder", {"Dockerfile": _BUILDER, "wheels": _wheels()}, BASE=base)
    return built(client, "redelivery-test", _context(), BASE=base, BUILD_BASE=builder)


def _context() -> Context:
    """What .dockerignore lets through."""
    context: dict[str, Path | bytes] = {"Dockerfile": ROOT / "deploy" / "Dockerfile"}
    context |= {lock.relative_to(ROOT).as_posix(): lock for lock in _LOCKS}
    context |= {name: ROOT / name for name in ("LICENSE", "README.md", "kafka_redelivery.py", "pyproject.toml")}
    for package in _PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                context[path.relative_to(ROOT).as_posix()] = path
    return context


def _wheels() -> Path:
    """All that the image is made from, fetched for its own Python."""
    version = hashlib.sha256(b"".join(lock.read_bytes() for lock in _LOCKS)).hexdigest()[:12]
    wheels = cache_directory() / "wheels" / version
    if not wheels.exists():
        wheels.parent.mkdir(parents=True, exist_ok=True)
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 26, 27, 28, 34, 35)]
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=wheels.parent) as folder:
            options = ("--python-version", PYTHON, "--implementation=cp", "--platform=manylinux2014_x86_64", *platforms)
            download(Path(folder, "wheels"), *_LOCKS, options=options)
            Path(folder, "wheels").rename(wheels)
    return wheels
