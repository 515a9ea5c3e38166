"""Makes the JVMs of tests start sooner: without the optimising compiler, and from an archive of Kafka's classes."""

import hashlib
import os
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

from kafka_redelivery.transport.broker.embedded import JVM_DEFAULTS, JVM_OPTIONS, EmbeddedKafka
from kafka_redelivery.transport.broker.jars import cache_directory, kafka_jars
from kafka_redelivery.transport.broker.java import find_java

_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""A JVM of a test ends so soon that optimising its code takes more time than it saves."""

_CODE: Final = "-XX:ReservedCodeCacheSize=192m"
"""With the flag above there is room for 48 MiB of compiled code. Spark with Delta Lake fills it, and gets slow."""

_COLLECTOR: Final = "-XX:+UseSerialGC"
"""The default collector of Spark's JVM marks concurrently, which takes a tenth of its time."""


def configure(config: pytest.Config) -> None:
    """Set the options of the JVMs of Kafka and Spark for this process and the processes that it starts.

    A run with several processes makes the archive first, in the cache of the jars, which takes as long as one broker;
    a run with one uses it if there is one. With it a broker starts with half of the work. A JVM that cannot make one
    works without.
    """
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_COMPILER} {_CODE} {_COLLECTOR}"
    os.environ[JVM_OPTIONS] = f"{JVM_DEFAULTS} {_COMPILER}"
    archive = cache_directory() / f"{_origin()}.jsa"
    if config.getoption("numprocesses", None) and not archive.exists():
        _make(archive)
    if archive.exists():
        os.environ[JVM_OPTIONS] += f" -XX:SharedArchiveFile={shlex.quote(str(archive))}"


def _origin() -> str:
    # An archive can be read with the JVM and the jars that it was made with. Asking for them makes the folder.
    version = subprocess.run([find_java(), "-version"], capture_output=True, check=True).stderr
    return hashlib.sha256(b"\0".join([version, *(bytes(jar) for jar in kafka_jars())])).hexdigest()[:16]


def _make(archive: Path) -> None:
    # The JVM writes the archive when it ends. A name of its own makes it appear complete.
    options, unfinished = os.environ[JVM_OPTIONS], archive.with_suffix(f".{os.getpid()}")
    os.environ[JVM_OPTIONS] = f"{options} -XX:ArchiveClassesAtExit={shlex.quote(str(unfinished))}"
    try:
        with EmbeddedKafka() as kafka:
            kafka.create_topics({"archive": 1})
    finally:
        os.environ[JVM_OPTIONS] = options
    checked = ["-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={unfinished}"]
    jars = ":".join(map(str, kafka_jars()))
    command: list[str | Path] = [find_java(), *shlex.split(options), *checked, "-cp", jars, "-version"]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        unfinished.rename(archive)
    else:
        unfinished.unlink(missing_ok=True)
