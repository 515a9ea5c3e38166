"""The jars of the embedded Apache Kafka: pinned in ``kafka_jars.txt``, fetched once, verified at every use.

``kafka_jars.txt`` has one jar per line, ``group:artifact:version sha256``. ``python -m`` with the name of this module
writes it for ``KAFKA_VERSION``: the dependencies of the published broker, and a logger that writes to standard error.
The jars of another version are resolved and pinned in the cache when it is first used.
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

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kafka_redelivery.transport.errors import TransportError

try:
    import platformdirs
    import requests
    from jgo.maven import MavenContext
except ModuleNotFoundError as error:
    package = str(error.name).partition(".")[0]
    raise TransportError(
        f"the embedded Kafka broker and Spark jobs fetch jars with the Python package {package}, which is not "
        "installed; install it with: pip install 'kafka-redelivery[broker]', in a checkout pip install '.[broker]'"
    ) from error

KAFKA_VERSION: Final = "4.4.0"
LOCK_FILE: Final = Path(__file__).with_name("kafka_jars.txt")
CACHE_VARIABLE: Final = "REDELIVERY_CACHE"

_PARALLEL_DOWNLOADS: Final = 6
_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Jar:
    """A pinned jar. ``sha256`` is lower-case hexadecimal."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """The published file name."""
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def _unavailable(wanted: Jar | str, cache: Path, reason: str) -> TransportError:
    return TransportError(
        f"{wanted} is not in {cache} and could not be fetched: {reason}. "
        f"Try again with a network, copy the jars there, or set {CACHE_VARIABLE} to a directory with them"
    )


def cache_directory() -> Path:
    """Return the directory of fetched files: ``REDELIVERY_CACHE``, or the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("kafka-redelivery")


def locked_jars(lock_file: Path = LOCK_FILE) -> tuple[Jar, ...]:
    """Return the pinned jars of a lock file."""
    lines = lock_file.read_text(encoding="utf-8").splitlines()
    return tuple(_parse(line) for line in lines if line and not line.startswith("#"))


def _parse(line: str) -> Jar:
    coordinates, sha256 = line.split()
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, sha256)


def kafka_jars(
    cache: Path | None = None, lock_file: Path = LOCK_FILE, what: str = f"Apache Kafka {KAFKA_VERSION}"
) -> tuple[Path, ...]:
    """Return the paths of the pinned jars, verified by their SHA-256: by default the class path of the embedded broker.

    Missing jars are fetched with a progress bar on standard error; if none is missing there is no network traffic.
    Several processes may do this concurrently.

    Args:
        cache: where the jars are kept; ``None`` for ``cache_directory()``.
        lock_file: pins the jars.
        what: names the jars in the progress bar.

    Raises:
        TransportError: a cached or fetched jar is not the pinned one, or a missing jar cannot be fetched.
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
        raise TransportError(
            f"{path if wanted_at is None else wanted_at}: SHA-256 is {found}, but {jar} is pinned as {jar.sha256}. "
            "Unless you changed the file, do not trust it: delete it, and the next start fetches it again"
        )


def _fetch(jars: list[Jar], directory: Path, what: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # Renamed from a directory on the same file system, a jar appears in the cache complete and verified.
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory) as staging:
        context = MavenContext(repo_cache=Path(staging), local_repos=[], timeout=_TIMEOUT_SECONDS)

        def fetch(jar: Jar) -> None:
            artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact()
            try:
                fetched = artifact.resolve()
            except (requests.RequestException, RuntimeError, OSError) as error:
                raise _unavailable(jar, directory, str(error)) from error
            _verify(jar, fetched, wanted_at=directory / jar.name)
            fetched.replace(directory / jar.name)

        _in_parallel(fetch, jars, what)


def _in_parallel(fetch: Callable[[Jar], None], jars: Iterable[Jar], what: str) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool,
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


def kafka_lock(version: str, cache: Path | None = None) -> Path:
    """Return the file that pins the jars of an Apache Kafka; for another than ``KAFKA_VERSION`` it is in the cache.

    Raises:
        TransportError: the repository does not have this version, or it cannot be reached.
    """
    if version == KAFKA_VERSION:
        return LOCK_FILE
    directory = (cache_directory() if cache is None else cache) / "jars"
    lock_file = directory / f"kafka-{version}.txt"
    if not lock_file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        try:
            _lock_kafka(version, lock_file)
        except (requests.RequestException, RuntimeError, OSError) as error:
            raise _unavailable(f"Apache Kafka {version}", directory, str(error)) from error
    return lock_file


def _lock_kafka(version: str, lock_file: Path) -> None:
    roots = (f"org.apache.kafka:kafka_2.13:{version}", "org.slf4j:slf4j-simple:1.7.36")
    lock(lock_file, roots, f"The class path of Apache Kafka {version}; written by python -m {__spec__.name}")


def lock(lock_file: Path, roots: Iterable[str], header: str) -> None:
    """Resolve ``roots``, ``group:artifact:version`` each, fetch every jar and write ``lock_file``."""
    with tempfile.TemporaryDirectory() as staging:
        context = MavenContext(repo_cache=Path(staging), local_repos=[], timeout=_TIMEOUT_SECONDS)
        wanted = [context.create_dependency(root) for root in roots]
        _, nodes = context.resolver.get_dependency_list(wanted)
        artifacts = {dependency.artifact for dependency in [*wanted, *(node.dep for node in nodes)]}
        lines = sorted(
            f"{artifact.groupId}:{artifact.artifactId}:{artifact.version} "
            f"{hashlib.sha256(artifact.resolve().read_bytes()).hexdigest()}"
            for artifact in artifacts
        )
    # Another process that needs the same file sees it complete or not at all.
    unfinished = lock_file.with_suffix(f".{os.getpid()}")
    unfinished.write_text("\n".join([f"# {header}", *lines, ""]), encoding="utf-8")
    unfinished.replace(lock_file)


if __name__ == "__main__":
    _lock_kafka(KAFKA_VERSION, LOCK_FILE)
    sys.stdout.write(f"{len(locked_jars())} jars in {LOCK_FILE}\n")
