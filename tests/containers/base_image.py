"""Builds a base image without a registry: a Debian with Python, made by debootstrap."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from docker import DockerClient
from docker.errors import ImageNotFound

_SUITE: Final = "bookworm"
PYTHON: Final = "3.11"
"""The Python version of that Debian release."""

_INCLUDED: Final = "python3,python3-venv"
_MIRROR: Final = "TEST_DEBIAN_MIRROR"
# Documentation, translations and remains of package installation, which no container reads.
_LEFT_OUT: Final = (
    "./usr/share/doc/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./var/cache/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./dev/*",
    "./proc/*",
    "./sys/*",
)


class ImageMissingError(Exception):
    """An image does not exist and cannot be built here; the message has a fix."""


def exists(client: DockerClient, tag: str) -> bool:
    """Return whether the engine has the image."""
    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True


def base_image(client: DockerClient, *more: str) -> str:
    """Return the tag of a Debian with Python and ``more`` packages; build it if it does not exist.

    Raises:
        ImageMissingError: debootstrap is missing, or this is not root.
        subprocess.CalledProcessError: the packages cannot be downloaded or installed.
    """
    included = ",".join((_INCLUDED, *more))
    recipe = hashlib.sha256(repr((_SUITE, included, _LEFT_OUT)).encode()).hexdigest()[:12]
    tag = f"redelivery-base:{recipe}"
    if not exists(client, tag):
        _make(client, tag, included)
    return tag


def _make(client: DockerClient, tag: str, included: str) -> None:
    program = shutil.which("debootstrap")
    if program is None or os.geteuid() != 0:
        raise ImageMissingError(
            "no base image: debootstrap must be installed and run by root (`./dev doctor --install`). If a registry is "
            "reachable, set TEST_KAFKA_IMAGE=apache/kafka:4.4.0 and TEST_BASE_IMAGE=python:3.13-slim; "
            "`./dev test --no-containers` skips these tests"
        )
    with tempfile.TemporaryDirectory(prefix="redelivery-base-") as folder:
        root, archive = Path(folder, "root"), Path(folder, "root.tar")
        command = [program, "--variant=minbase", f"--include={included}", _SUITE, str(root)]
        if os.environ.get(_MIRROR):
            command.append(os.environ[_MIRROR])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        excluded = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
        pack = [shutil.which("tar") or "tar", "-C", str(root), "--anchored", "--wildcards", *excluded]
        subprocess.run([*pack, "-cf", str(archive), "."], check=True)
        repository, _, version = tag.partition(":")
        with archive.open("rb") as content:
            client.api.import_image_from_data(content, repository=repository, tag=version)
