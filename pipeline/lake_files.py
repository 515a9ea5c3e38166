"""Files of a table, wherever Spark can reach them: through Hadoop's file systems, in the JVM of the session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

_LOCAL: Final = "file"
_ATOMIC: Final = frozenset({_LOCAL, "hdfs", "viewfs", "abfs", "abfss"})
"""File systems where a file takes another's place in one step."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """One file."""

    uri: str
    """Whole and escaped, as Spark notes it: ``file:///data/part-0.parquet``."""

    size: int
    modified_ms: int
    block_size: int
    replication: int


class LakeFiles:
    """What lies below a root. A name is relative to it, or a whole URI. Errors are the JVM's own."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        context: Any = spark.sparkContext
        self._gateway = context._gateway  # noqa: SLF001 - the only way to Hadoop's file systems
        self._jvm = context._jvm  # noqa: SLF001 - as above
        configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
        given = self._jvm.org.apache.hadoop.fs.Path(root)
        self._fs = given.getFileSystem(configuration)
        self._root = self._fs.makeQualified(given)
        self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), configuration)

    @property
    def root(self) -> str:
        """The root with its scheme, as Spark takes it."""
        return str(self._root.toString())

    @property
    def scheme(self) -> str:
        """Of the file system: ``file``, ``hdfs``, ``s3a``."""
        return str(self._fs.getScheme())

    @property
    def replaces_at_once(self) -> bool:
        """Whether :meth:`replace` is one step here."""
        return self.scheme in _ATOMIC

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder."""
        path = self._path(folder)
        return [str(each.getPath().getName()) for each in self._fs.listStatus(path)] if self._fs.exists(path) else []

    def files(self, folder: str = "") -> Iterator[LakeFile]:
        """All files below a folder, but for names that begin with ``_`` or ``.`` and what lies in such folders."""
        if self._fs.exists(self._path(folder)):
            yield from self._below(self._path(folder))

    def _below(self, path: Any) -> Iterator[LakeFile]:  # noqa: ANN401 - a class of the JVM
        for status in self._fs.listStatus(path):
            if str(status.getPath().getName()).startswith(("_", ".")):
                continue
            if status.isDirectory():
                yield from self._below(status.getPath())
            else:
                yield _file(status)

    def path(self, name: str) -> str:
        """Where a file is, with its scheme and not escaped: as Spark takes it."""
        return str(self._path(name).toString())

    def file(self, name: str) -> LakeFile:
        """One file."""
        return _file(self._fs.getFileStatus(self._path(name)))

    def read(self, name: str) -> str:
        """The text of a small file."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a small file. A reader, or a crash, may find it half written: see :meth:`replace`."""
        stream = self._fs.create(self._path(name), True)  # noqa: FBT003 - overwrite
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def replace(self, new: str, old: str) -> None:
        """Put one file in the place of another. A reader finds the one or the other, also after a crash.

        That is so where :attr:`replaces_at_once`.
        """
        source, target = self._path(new), self._path(old)
        if self.scheme == _LOCAL:
            # Hadoop would delete first and rename then. The checksum of what was there would make what comes look
            # damaged; without one it is read unchecked.
            for path in (source, target):
                checksum = _local(path).with_name(f".{path.getName()}.crc")
                checksum.unlink(missing_ok=True)
            _local(source).replace(_local(target))
            return
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        self._context.rename(source, target, options)

    def move(self, old: str, new: str) -> str:
        """Rename a file to a name that is free, and return that as a URI. Its folder is made if need be."""
        target = self._path(new)
        self._fs.mkdirs(target.getParent())
        if not self._fs.rename(self._path(old), target):
            raise OSError(f"cannot rename {old} to {new} below {self.root}")
        return str(target.toUri().toString())

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        self._fs.delete(self._path(name), True)  # noqa: FBT003 - with what is in it

    def _path(self, name: str) -> Any:  # noqa: ANN401 - a class of the JVM
        path = self._jvm.org.apache.hadoop.fs.Path
        if not name:
            return self._root
        if name.startswith(f"{self.scheme}:"):
            return path(self._jvm.java.net.URI(name))
        return path(self._root, name)


def _local(path: Any) -> Path:  # noqa: ANN401 - a class of the JVM
    return Path(str(path.toUri().getPath()))


def _file(status: Any) -> LakeFile:  # noqa: ANN401 - a class of the JVM
    return LakeFile(
        str(status.getPath().toUri().toString()),
        int(status.getLen()),
        int(status.getModificationTime()),
        int(status.getBlockSize()),
        int(status.getReplication()),
    )
