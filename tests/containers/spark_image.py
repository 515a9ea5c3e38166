"""The image of deploy/spark.Dockerfile; without a registry, built on a Debian from downloaded packages.

    python -m tests.containers.spark_image      builds it, and prints its name and size

No test builds it, since that takes minutes.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import docker
from docker import DockerClient

from kafka_redelivery.pipeline.spark.jars import CONNECTOR, DELTA
from kafka_redelivery.transport.broker.jars import cache_directory
from tests.containers.base_image import PYTHON, base_image
from tests.containers.context import Context, built
from tests.containers.engine import engine
from tests.containers.kafka_image import ROOT, download
from tests.containers.worker_image import CHOSEN_BASE, PACKAGES, context_of

_INSTALLED: Final = ("openjdk-17-jre-headless", "tini")
_LOCKS: Final = (ROOT / "requirements" / "build.txt", ROOT / "requirements" / "spark.txt")
_BUILDER: Final = b"""
ARG BASE
FROM ${BASE}
COPY wheels /wheels
COPY jars /opt/spark/jars
ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
"""


def spark_image(client: DockerClient) -> str:
    """Return the tag of the image; build it if it does not exist.

    Raises:
        ImageMissingError: there is no base image.
        subprocess.CalledProcessError: a package cannot be downloaded.
        TransportError: a jar cannot be downloaded.
    """
    chosen = os.environ.get(CHOSEN_BASE)
    if chosen:
        return built(client, "redelivery-spark", _context(), BASE=chosen)
    jars = (*CONNECTOR.paths(), *DELTA.paths())
    context: Context = {
        "Dockerfile": _BUILDER,
        "wheels": _packages(),
        **{f"jars/{jar.name}": jar for jar in jars},
    }
    builder = built(client, "redelivery-spark-builder", context, BASE=base_image(client))
    return built(
        client,
        "redelivery-spark",
        _context(),
        BASE=base_image(client, *_INSTALLED),
        BUILD_BASE=builder,
    )


def _context() -> Context:
    return context_of(*PACKAGES, dockerfile="spark.Dockerfile", locks=_LOCKS)


def _packages() -> Path:
    """Download all packages of the image for its Python; PySpark exists only as source."""
    version = hashlib.sha256(b"".join(lock.read_bytes() for lock in _LOCKS)).hexdigest()[:12]
    packages = cache_directory() / "wheels" / f"spark-{version}"
    if not packages.exists():
        packages.parent.mkdir(parents=True, exist_ok=True)
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 26, 27, 28, 34, 35)]
        options = ("--python-version", PYTHON, "--implementation=cp", "--platform=manylinux2014_x86_64", *platforms)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=packages.parent) as folder:
            download(Path(folder, "all"), *_LOCKS, options=(*options, "--no-binary=pyspark", "--no-build-isolation"))
            Path(folder, "all").rename(packages)
    return packages


def main() -> None:
    """Build the image and print its name and size."""
    with engine(), contextlib.closing(docker.from_env(timeout=600)) as client:
        tag = spark_image(client)
        image = client.images.get(tag)
        own = sum(layer["Size"] for layer in image.history() if "COPY dir:" in layer["CreatedBy"])
        sys.stdout.write(f"{tag}: {image.attrs['Size'] / 1e6:.0f} MB, its own layers {own / 1e6:.0f} MB\n")


if __name__ == "__main__":
    main()
