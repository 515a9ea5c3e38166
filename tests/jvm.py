"""Makes the JVMs of tests start sooner: without the optimising compiler, and from archives of their classes."""

import hashlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from kafka_redelivery.transport.broker import launch
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.broker.jars import kafka_jars
from kafka_redelivery.transport.broker.java import find_java

_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""A JVM of a test ends so soon that optimising its code takes more time than it saves."""

_CODE: Final = "-XX:ReservedCodeCacheSize=192m"
"""With the flag above there is room for 48 MiB of compiled code. Spark with Delta Lake fills it, and gets slow."""

_COLLECTOR: Final = "-XX:+UseSerialGC"
"""The default collector of Spark's JVM marks concurrently, which takes a tenth of its time."""

_SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM with another class path does without the archive, and would say so on standard output."""


def configure(config: pytest.Config) -> None:
    """Set the flags of the JVMs of Kafka and Spark for this process and the processes that it starts.

    A run with several processes makes the archives, that of Kafka first, which takes as long as one broker, and that of
    Spark meanwhile; a run with one uses them if they exist. With them a broker and a Spark session start with half of
    the work. A JVM that cannot make one works without.
    """
    assert config.cache is not None
    folder = Path(config.cache.mkdir("jvm"))
    spark = folder / "spark.jsa"
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(
        [_COMPILER, _CODE, _COLLECTOR, f"-XX:SharedArchiveFile={spark}", _SILENT]
    )
    launch._JVM_FLAGS = (*launch._JVM_FLAGS, _COMPILER)  # type: ignore[assignment, misc]
    archive = folder / f"{_origin()}.jsa"
    if config.getoption("numprocesses", None):
        if not spark.exists():
            making = subprocess.Popen(
                [sys.executable, "-m", "tests.spark_archive", str(spark), f"{_COMPILER} {_COLLECTOR}"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            config.add_cleanup(partial(_end, making))
        if not archive.exists():
            _make(archive)
    if archive.exists():
        launch._JVM_FLAGS = (*launch._JVM_FLAGS, f"-XX:SharedArchiveFile={archive}")  # type: ignore[assignment, misc]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _origin() -> str:
    # An archive can be read with the JVM and the jars that it was made with.
    version = subprocess.run([find_java(), "-version"], capture_output=True, check=True).stderr
    return hashlib.sha256(b"\0".join([version, *(bytes(jar) for jar in kafka_jars())])).hexdigest()[:16]


def _make(archive: Path) -> None:
    # The JVM writes the archive when it ends. A name of its own makes it appear complete.
    flags, unfinished = launch._BROKER_FLAGS, archive.with_suffix(f".{os.getpid()}")
    launch._BROKER_FLAGS = (*flags, f"-XX:ArchiveClassesAtExit={unfinished}")  # type: ignore[assignment, misc]
    try:
        with EmbeddedKafka() as kafka:
            kafka.create_topics({"archive": 1})
    finally:
        launch._BROKER_FLAGS = flags  # type: ignore[misc]
    checked = ["-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={unfinished}"]
    command: list[str | Path] = [
        find_java(),
        *launch._JVM_FLAGS,
        *checked,
        "-cp",
        ":".join(map(str, kafka_jars())),
        "-version",
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        unfinished.rename(archive)
    else:
        unfinished.unlink(missing_ok=True)
