"""Finds a Java that Spark runs on: a whole one, which the small runtime that serves the embedded broker is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pipeline.errors import SparkUnavailableError

_NEEDED: Final = "jdk.incubator.vector"
"""Spark's launcher asks for this module by name; it came with Java 16, and small runtimes leave it out."""

_ANSWER_SECONDS: Final = 30


def find_spark_java() -> Path:
    """The home of the first Java that will do: of ``JAVA_HOME``, then of ``PATH``.

    Raises:
        SparkUnavailableError: neither will; says what was looked at.
    """
    tried = []
    for place, java in _candidates():
        if java is None:
            tried.append(f"{place}: none")
        elif _is_whole(java):
            return java.resolve().parent.parent
        else:
            tried.append(f"{place}: {java} is not a whole Java 17 or newer")
    raise SparkUnavailableError(
        f"no Java that Spark runs on: {'; '.join(tried)}. "
        "Install one (Debian: openjdk-17-jre-headless), or point JAVA_HOME to one"
    )


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None


def _is_whole(java: Path) -> bool:
    try:
        answer = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and _NEEDED in answer.stdout
