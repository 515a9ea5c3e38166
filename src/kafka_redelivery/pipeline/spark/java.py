"""Finds a Java that Spark runs on. The reduced runtime of the embedded broker lacks modules that Spark needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafka_redelivery.pipeline.errors import SparkUnavailableError

_NEEDED: Final = "jdk.incubator.vector"
"""Spark's launcher requires this module. Java has it since version 16; reduced runtimes leave it out."""

_TIMEOUT_S: Final = 30


def find_spark_java() -> Path:
    """Return the home of the first suitable Java: ``JAVA_HOME``, then ``PATH``.

    Raises:
        SparkUnavailableError: neither is suitable; the message lists both.
    """
    tried = []
    for location, java in _candidates():
        if java is None:
            tried.append(f"{location}: none")
        elif _is_complete(java):
            return java.resolve().parent.parent
        else:
            tried.append(f"{location}: {java} is not a complete Java 17 or newer")
    raise SparkUnavailableError(
        f"no Java that Spark runs on: {'; '.join(tried)}. "
        "Install one (Debian: openjdk-17-jre-headless), or set JAVA_HOME to one"
    )


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None


def _is_complete(java: Path) -> bool:
    try:
        answer = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and _NEEDED in answer.stdout
