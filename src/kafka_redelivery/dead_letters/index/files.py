"""The files of an index, for several processes: one may write while others read, and any may be killed.

* Data files are immutable: written, synchronised to the disk, never changed. The **manifest** names those that count,
  and how far each topic is read. It is replaced by a rename, so an index is always exactly one manifest and its files.
  A process that is killed at any instruction leaves the last manifest, and perhaps files that none names.
* A writer holds an exclusive lock. A second one waits for it, and then finds the first one's work. The kernel releases
  the lock of a process that ends in whatever way.
* A reader holds nothing. What a manifest does not name any more is deleted :data:`GRACE_S` later, so that readers of an
  earlier manifest have time. One that takes longer finds a file missing, and begins again with the present manifest.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.foreign.systems import Recognition

VERSION: Final = 12
"""Of the format of all files. An index of another version is built anew."""

GRACE_S: Final = 1800.0
"""Seconds from when a file is replaced until it is deleted."""

_LOOK_S: Final = 0.05
_CHUNK: Final = 1 << 20
_MANIFEST: Final = "manifest"
_LOCK: Final = "writer.lock"
_SUFFIXES: Final = frozenset({".new", ".parquet", ".tmp"})
"""Of the files of an index, those of DuckDB included. No others are deleted."""

_EARLIER: Final = ("catalogue", "readers.lock")
"""Files of earlier versions, which nothing names any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One immutable file."""

    name: str
    rows: int
    size: int
    modified_ns: int
    """With the size, it shows that a file is unchanged without reading it."""

    checksum: int
    """CRC-32, compared before letters are sent or removed: a bit that flips in a state would send them twice."""

    waiting: int = 0
    """Of letters: how many values are not decoded, because their schemas could not be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One partition of one dead-letter topic. A topic that is created again gets other slots."""

    number: int
    topic: str
    partition: int
    topic_id: str
    """Empty if the brokers give none."""

    start: int
    """Letters before this offset are deleted."""

    position: int
    """The offset to read next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How far the topics of the jobs and the actions are read, and the files that say what is in them."""

    topic_ids: tuple[str, str] = ("", "")
    starts: Mapping[str, int] = field(default_factory=dict)
    """The first offset of each partition, by ``topic-partition``. If it has moved, records were deleted."""

    jobs: int = 0
    """The end of the jobs that were read."""

    actions: Mapping[int, int] = field(default_factory=dict)
    """The offset to read next, by partition."""

    sequence: int = 0
    """How many rows of actions there are; a later row has a higher number."""

    owned_file: StoredFile | None = None
    action_files: tuple[StoredFile, ...] = ()
    deaths_file: StoredFile | None = None
    """Letters of another system that have died again, as rows of actions."""

    deaths_seen: tuple[int, ...] = ()
    """What these were found in: the end of the jobs, and of each slot number, start and end. Empty if some records that
    letters name could not be read."""

    unread_jobs: int = 0
    """How many records of the jobs cannot be read."""

    unread_actions: int = 0
    """The same of the actions."""

    @property
    def unread(self) -> int:
        """How many records of both topics cannot be read."""
        return self.unread_jobs + self.unread_actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What an index depends on beside the topics. Another basis needs another index."""

    version: int
    cluster: str
    group: str
    values: bool
    """Whether keys, header values and values are kept."""

    class_only: bool
    undecodable: tuple[str, ...] = ()
    """Sources whose values are no text, such as Avro, and are left out."""

    decoded: tuple[tuple[str, str], ...] = ()
    """Sources whose values are decoded, each with a digest of how."""

    question: bool = False
    """Whether it says which letters one selection means, which is about what it does not keep."""

    recognition: Recognition | None = None
    """Of other systems' letters: what a person says about these. ``None`` = the letters are ours."""

    @property
    def coded(self) -> list[str]:
        """Sources whose values are no text, such as Avro."""
        return [*self.undecodable, *(topic for topic, _ in self.decoded)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The state of an index. Files that it does not name mean nothing."""

    basis: Basis
    next_slot: int = 0
    slots: tuple[Slot, ...] = ()
    letter_files: tuple[StoredFile, ...] = ()
    facts: Facts = Facts()
    standings_file: StoredFile | None = None
    standings_slots: tuple[int, ...] = ()
    """The slots that the file was computed for. They may be others if the process was killed in a refresh."""

    refreshed_ms: int = 0
    asked_ms: int = 0
    """When schemas that could not be had were asked for last."""

    lacking: str = ""
    """Why one could not be had."""

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """All files that it names."""
        single = (self.facts.owned_file, self.facts.deaths_file, self.standings_file)
        return (*self.letter_files, *self.facts.action_files, *(each for each in single if each is not None))

    def text(self) -> bytes:
        """Return it as JSON."""
        return _MANIFESTS.dump_json(self)


_MANIFESTS: Final = TypeAdapter(Manifest)


class IndexFolder:
    """The folder of one index; only its owner may read it. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Create the folder if it does not exist.

        Raises:
            IndexUnusableError: it cannot be written.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            _refuse_others(path)
            path.chmod(0o700)
        except OSError as error:
            raise _unusable(path, error) from None

    def manifest(self) -> Manifest | None:
        """Return what was published last; ``None`` if there is nothing, it is damaged, or of another version."""
        try:
            found = _MANIFESTS.validate_json((self.path / _MANIFEST).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        except OSError as error:
            raise _unusable(self.path, error) from None
        return found if found.basis.version == VERSION else None

    @contextmanager
    def writing(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of the writer. ``waiting``: called again and again while another process has it."""
        try:
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            pause = threading.Event()
            while not _locked(lock):
                waiting()
                pause.wait(_LOOK_S)
            yield
        finally:
            os.close(lock)

    def publish(self, manifest: Manifest) -> None:
        """Replace the manifest, whose files are on the disk already, and delete what is not named for long."""
        new = self.path / f"{_MANIFEST}.new"
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(manifest.text())
                file.flush()
                os.fsync(file.fileno())
            before = self.manifest()
            new.replace(self.path / _MANIFEST)
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self._delete_others(manifest, before)
        except OSError as error:
            raise _unusable(self.path, error) from None

    def stored(self, name: str, rows: int) -> StoredFile:
        """Bring a new file to the disk, and return what a manifest says about it."""
        path = self.path / name
        path.chmod(0o600)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        found = path.stat()
        checksum = _checksum(path)
        return StoredFile(name=name, rows=rows, size=found.st_size, modified_ns=found.st_mtime_ns, checksum=checksum)

    def is_whole(self, manifest: Manifest) -> bool:
        """Whether all files of a manifest have the size and the time that they were written with."""
        with suppress(OSError):
            found = [(self.path / each.name).stat() for each in manifest.files]
            pairs = zip(manifest.files, found, strict=True)
            return all((each.size, each.modified_ns) == (now.st_size, now.st_mtime_ns) for each, now in pairs)
        return False

    def is_intact(self, manifest: Manifest) -> bool:
        """Whether all bytes of the files of a manifest are as they were written."""
        with suppress(OSError):
            return all(_checksum(self.path / each.name) == each.checksum for each in manifest.files)
        return False

    def _delete_others(self, manifest: Manifest, before: Manifest | None) -> None:
        """Delete files that have not been named for :data:`GRACE_S`; of another basis, at once."""
        now_ns = (self.path / _MANIFEST).stat().st_mtime_ns
        kept = {_MANIFEST, _LOCK, *(each.name for each in manifest.files)}
        other_basis = before is None or before.basis != manifest.basis
        dropped = set() if before is None else {each.name for each in before.files}
        for each in self.path.iterdir():
            if each.name in kept or (each.suffix not in _SUFFIXES and each.name not in _EARLIER):
                continue
            with suppress(FileNotFoundError):  # a spilled file of DuckDB
                if other_basis and each.suffix == ".parquet":
                    each.unlink()
                elif each.name in dropped:
                    os.utime(each)  # its time begins now
                elif each.stat().st_mtime_ns <= now_ns - GRACE_S * 1e9:
                    each.unlink()


def _refuse_others(path: Path) -> None:
    """Refuse a folder that another user has put there: files in it are deleted, and what is written could be read.

    Raises:
        PermissionError: it is a link, or not a folder of this user.
    """
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is a link, or belongs to another user")


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            found = zlib.crc32(part, found)
    return found


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unusable(path: Path, error: OSError) -> IndexUnusableError:
    return IndexUnusableError(
        f"the index of dead letters cannot be kept in {path}: {error.strerror or error}; name another folder with "
        "--index, or deadLetters.index.path"
    )
