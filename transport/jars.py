"""The jars of the embedded Apache Kafka: named and pinned in ``kafka_jars.txt``, fetched once, verified at every use.

``kafka_jars.txt`` has one jar a line, ``group:artifact:version sha256``. ``python -m transport.jars`` writes it anew
for ``KAFKA_VERSION``: what the published broker depends on, and a logger that writes to standard error.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs
import requests
from jgo.maven import MavenContext
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from transport.errors import TransportError

KAFKA_VERSION: Final = "4.3.1"
LOCK_FILE: Final = Path(__file__).with_name("kafka_jars.txt")
CACHE_VARIABLE: Final = "REDELIVERY_CACHE"

_ROOTS: Final = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_DOWNLOADS_AT_ONCE: Final = 6
_ANSWER_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar. ``sha256`` is lower-case hexadecimal."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """The file name, as published."""
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


class JarMismatchError(TransportError):
    """A jar is not the one that is pinned. It was not used.

    Raised by ``kafka_jars``. ``path`` is where it lies, or would have been put.
    """

    def __init__(self, jar: Jar, path: Path, found: str) -> None:
        super().__init__(
            f"{path}: SHA-256 is {found}, but {jar} is pinned as {jar.sha256}. "
            "If you did not change the file, do not trust it: delete it, and it is fetched again"
        )
        self.jar = jar
        self.path = path
        self.found = found


class JarUnavailableError(TransportError):
    """A jar is not in the cache and could not be fetched. Raised by ``kafka_jars``."""

    def __init__(self, jar: Jar, cache: Path, reason: str) -> None:
        super().__init__(
            f"{jar} is not in {cache} and could not be fetched: {reason}. "
            f"Try again with a network, or put the jars there, or set {CACHE_VARIABLE} to a directory that has them"
        )
        self.jar = jar
        self.cache = cache
        self.reason = reason


def cache_directory() -> Path:
    """Where what was fetched is kept: ``REDELIVERY_CACHE``, else the user's own cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("kafka-redelivery")


def locked_jars(lock_file: Path = LOCK_FILE) -> tuple[Jar, ...]:
    """Reads the pinned jars."""
    lines = lock_file.read_text(encoding="utf-8").splitlines()
    return tuple(_parsed(line) for line in lines if line and not line.startswith("#"))


def _parsed(line: str) -> Jar:
    coordinates, sha256 = line.split()
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, sha256)


def kafka_jars(
    cache: Path | None = None, lock_file: Path = LOCK_FILE, what: str = f"Apache Kafka {KAFKA_VERSION}"
) -> tuple[Path, ...]:
    """Gives the class path of the embedded broker, every jar of it verified against its pinned SHA-256.

    With another ``lock_file`` it gives the jars that are pinned there; ``what`` names them to people.

    What is missing is fetched into ``cache`` (default: ``cache_directory()``) with a progress line on standard error;
    when nothing is missing there is no network traffic. Several processes may do this at the same time.

    Raises:
        JarMismatchError: a cached or fetched jar is not the pinned one.
        JarUnavailableError: a missing jar cannot be fetched.
    """
    directory = (cache_directory() if cache is None else cache) / "jars"
    jars = locked_jars(lock_file)
    missing = [jar for jar in jars if not (directory / jar.name).exists()]
    if missing:
        _fetch(missing, directory, what)
    for jar in jars:
        if jar not in missing:
            _verify(jar, directory / jar.name)
    return tuple(directory / jar.name for jar in jars)


def _verify(jar: Jar, path: Path, *, wanted_at: Path | None = None) -> None:
    with path.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != jar.sha256:
        raise JarMismatchError(jar, path if wanted_at is None else wanted_at, found)


def _fetch(jars: list[Jar], directory: Path, what: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # A jar appears in the cache complete and verified or not at all: it is renamed there from a directory beside it.
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory) as staging:
        context = MavenContext(repo_cache=Path(staging), local_repos=[], timeout=_ANSWER_SECONDS)

        def fetch(jar: Jar) -> None:
            artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact()
            try:
                fetched = artifact.resolve()
            except (requests.RequestException, RuntimeError, OSError) as error:
                raise JarUnavailableError(jar, directory, str(error)) from error
            _verify(jar, fetched, wanted_at=directory / jar.name)
            fetched.replace(directory / jar.name)

        _in_parallel(fetch, jars, what)


def _in_parallel(fetch: Callable[[Jar], None], jars: Iterable[Jar], what: str) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool,
    ):
        fetching = [pool.submit(fetch, jar) for jar in jars]
        try:
            for done in progress.track(
                as_completed(fetching), total=len(fetching), description=f"fetching {what} (once)"
            ):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def lock() -> None:
    """Resolves ``_ROOTS`` anew, fetches every jar and writes ``LOCK_FILE``."""
    with tempfile.TemporaryDirectory() as staging:
        context = MavenContext(repo_cache=Path(staging), local_repos=[], timeout=_ANSWER_SECONDS)
        roots = [context.create_dependency(root) for root in _ROOTS]
        _, nodes = context.resolver.get_dependency_list(roots)
        artifacts = {dependency.artifact for dependency in [*roots, *(node.dep for node in nodes)]}
        lines = sorted(
            f"{artifact.groupId}:{artifact.artifactId}:{artifact.version} "
            f"{hashlib.sha256(artifact.resolve().read_bytes()).hexdigest()}"
            for artifact in artifacts
        )
    header = f"# The class path of Apache Kafka {KAFKA_VERSION}; written by python -m transport.jars"
    LOCK_FILE.write_text("\n".join([header, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    lock()
    sys.stdout.write(f"{len(locked_jars())} jars in {LOCK_FILE}\n")
