"""The files of an index, for several processes: one may write while others read, and any may be killed.

* Data files are immutable: written, synchronised to the disk, never changed. ``catalogue`` names those that count, and
  how far each topic is read. It is replaced by a rename, so an index is always exactly one catalogue and its files. A
  process that is killed at any instruction leaves the last catalogue, and perhaps files that none names.
* A writer holds an exclusive lock on ``writer.lock``. A second one waits for it, and then finds the first one's work.
* A reader holds a shared lock on ``readers.lock`` from before it reads the catalogue until it has done with its files.
  A writer deletes what no catalogue names only while it holds that lock alone, without waiting for it. What it cannot
  delete the next writer deletes.

The kernel releases the locks of a process that ends in whatever way.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.index.catalogue import Catalogue, StoredFile, read_catalogue

_LOOK_S = 0.05
_CHUNK = 1 << 20
_CATALOGUE = "catalogue"
_LOCKS = frozenset({"writer.lock", "readers.lock"})
_SUFFIXES = frozenset({".new", ".parquet", ".tmp"})
"""Of the files of an index, those of DuckDB included. No others are deleted."""


class IndexFolder:
    """The folder of one index; only its owner may read it. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Create the folder if it does not exist.

        Raises:
            IndexUnusableError: it cannot be written.
        """
        self.path = path
        self._reading: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            _refuse_others(path)
            path.chmod(0o700)
        except OSError as error:
            raise _unusable(path, error) from None

    def catalogue(self) -> Catalogue | None:
        """Return what was published last; ``None`` if there is nothing, or it is damaged."""
        try:
            return read_catalogue((self.path / _CATALOGUE).read_text(encoding="utf-8"))
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        except OSError as error:
            raise _unusable(self.path, error) from None

    @contextmanager
    def writing(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of the writer; wait for another process that has it.

        Args:
            waiting: called again and again while another process has it.
        """
        lock = self._open("writer.lock")
        try:
            pause = threading.Event()
            while not _locked(lock, fcntl.LOCK_EX):
                waiting()
                pause.wait(_LOOK_S)
            yield
        finally:
            os.close(lock)

    def begin_reading(self) -> Catalogue | None:
        """Keep the files of the present catalogue from being deleted until :meth:`end_reading`, and return it."""
        self.end_reading()
        self._reading = self._open("readers.lock")
        fcntl.flock(self._reading, fcntl.LOCK_SH)
        return self.catalogue()

    def end_reading(self) -> None:
        """Let the files go."""
        if self._reading is not None:
            os.close(self._reading)
            self._reading = None

    def publish(self, catalogue: Catalogue) -> None:
        """Replace the catalogue. Its files are on the disk already."""
        new = self.path / f"{_CATALOGUE}.new"
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(catalogue.text())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path / _CATALOGUE)
            self._synchronise()
        except OSError as error:
            raise _unusable(self.path, error) from None

    def stored(self, name: str, rows: int) -> StoredFile:
        """Bring a new file to the disk, and return what a catalogue says about it."""
        path = self.path / name
        path.chmod(0o600)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        found = path.stat()
        checksum = _checksum(path)
        return StoredFile(name=name, rows=rows, size=found.st_size, checksum=checksum, modified_ns=found.st_mtime_ns)

    def is_whole(self, catalogue: Catalogue, *, thoroughly: bool = False) -> bool:
        """Whether all files of a catalogue are as they were written.

        Args:
            catalogue: the catalogue.
            thoroughly: read all files, not only those that were written to since.
        """
        return all(self._is_unchanged(each, thoroughly=thoroughly) for each in catalogue.files)

    def remove_others(self, catalogue: Catalogue | None) -> None:
        """Delete files that a catalogue does not name, unless a process reads; only a writer may call this."""
        kept = {_CATALOGUE, *_LOCKS, *(each.name for each in (catalogue.files if catalogue else ()))}
        lock = self._open("readers.lock")
        try:
            if not _locked(lock, fcntl.LOCK_EX):
                return
            for each in self.path.iterdir():
                if each.name not in kept and each.suffix in _SUFFIXES and each.is_file():
                    each.unlink(missing_ok=True)
        finally:
            os.close(lock)

    def discard(self) -> None:
        """Forget everything that was published; only a writer may call this."""
        (self.path / _CATALOGUE).unlink(missing_ok=True)
        self._synchronise()

    def _is_unchanged(self, file: StoredFile, *, thoroughly: bool) -> bool:
        path = self.path / file.name
        with suppress(OSError):
            found = path.stat()
            if found.st_size == file.size:
                same = found.st_mtime_ns == file.modified_ns and not thoroughly
                return same or _checksum(path) == file.checksum
        return False

    def _open(self, name: str) -> int:
        try:
            return os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unusable(self.path, error) from None

    def _synchronise(self) -> None:
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _refuse_others(path: Path) -> None:
    """Refuse a folder that another user has put there: files in it are deleted, and what is written could be read.

    Raises:
        PermissionError: it is a link, or not a folder of this user.
    """
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is a link, or belongs to another user")


def _locked(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            found = zlib.crc32(part, found)
    return found


def _unusable(path: Path, error: OSError) -> IndexUnusableError:
    return IndexUnusableError(
        f"the index of dead letters cannot be kept in {path}: {error.strerror or error}; name another folder with "
        "--index, or deadLetters.index.path"
    )
