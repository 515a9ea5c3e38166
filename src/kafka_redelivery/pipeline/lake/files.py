"""Files on any file system that Spark can reach, through Hadoop's file systems in the JVM of the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL: Final = "file"
_ATOMIC: Final = frozenset({_LOCAL, "hdfs", "viewfs", "abfs", "abfss"})
"""File systems that replace a file atomically."""


class LakeFiles:
    """The files below a root folder. A name is relative to it, or an absolute URI. Errors are those of the JVM."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        context: Any = spark.sparkContext
        self._gateway = context._gateway  # noqa: SLF001 - the only way to Hadoop's file systems
        self._jvm = context._jvm  # noqa: SLF001 - as above
        self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
        given = self._jvm.org.apache.hadoop.fs.Path(root)
        self._fs = given.getFileSystem(self._configuration)
        self._root = self._fs.makeQualified(given)

    @property
    def root(self) -> str:
        """The absolute URI of the root, as Spark's readers and writers take it."""
        return str(self._root.toString())

    @property
    def path(self) -> str:
        """The path of the root, without its scheme and not escaped."""
        return str(self._root.toUri().getPath())

    @property
    def scheme(self) -> str:
        """The scheme of the file system: ``file``, ``hdfs``, ``s3a``."""
        return str(self._fs.getScheme())

    @property
    def replaces_atomically(self) -> bool:
        """Whether :meth:`replace` is atomic on this file system."""
        return self.scheme in _ATOMIC

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; empty if the folder does not exist."""
        path = self._path(folder)
        return [str(each.getPath().getName()) for each in self._fs.listStatus(path)] if self._fs.exists(path) else []

    def files(self, folder: str = "") -> Iterator[str]:
        """Iterate over the files below a folder, without files and folders whose names begin with ``_`` or ``.``.

        They are absolute, escaped URIs, as Spark writes them: ``file:///data/part-0.parquet``.
        """
        path = self._path(folder)
        for status in self._fs.listStatus(path) if self._fs.exists(path) else ():
            uri = str(status.getPath().toUri().toString())
            if str(status.getPath().getName()).startswith(("_", ".")):
                continue
            if status.isDirectory():
                yield from self.files(uri)
            else:
                yield uri

    def size(self, name: str) -> int:
        """Return the size of a file."""
        return int(self._fs.getFileStatus(self._path(name)).getLen())

    def read(self, name: str) -> str:
        """Read a small text file."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a small text file and its folders. Not atomic: a reader may see a part of it, see :meth:`replace`."""
        stream = self._fs.create(self._path(name), True)  # noqa: FBT003 - overwrite
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def replace(self, new: str, old: str) -> None:
        """Replace the file ``old`` by the file ``new``.

        Where :attr:`replaces_atomically`, readers see one or the other, also after a crash.
        """
        source, target = self._path(new), self._path(old)
        if self.scheme == _LOCAL:
            # Hadoop would delete first and then rename. A checksum file of the old file would make the new one look
            # damaged; without one the file is read unchecked.
            for path in (source, target):
                checksum = _local(path).with_name(f".{path.getName()}.crc")
                checksum.unlink(missing_ok=True)
            _local(source).replace(_local(target))
            return
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        file_context = self._jvm.org.apache.hadoop.fs.FileContext
        file_context.getFileContext(self._root.toUri(), self._configuration).rename(source, target, options)

    def move(self, old: str, new: str) -> str:
        """Rename a file to a free name, create its folder if necessary, and return the new URI."""
        target = self._path(new)
        self._fs.mkdirs(target.getParent())
        if not self._fs.rename(self._path(old), target):
            raise OSError(f"cannot rename {old} to {new} below {self.root}")
        return str(target.toUri().toString())

    def delete(self, name: str) -> None:
        """Delete a file, or a folder and its contents, if it exists."""
        self._fs.delete(self._path(name), True)  # noqa: FBT003 - recursive

    def _path(self, name: str) -> Any:  # noqa: ANN401 - a class of the JVM
        path = self._jvm.org.apache.hadoop.fs.Path
        if not name:
            return self._root
        if name.startswith(f"{self.scheme}:"):
            return path(self._jvm.java.net.URI(name))
        return path(self._root, name)


def _local(path: Any) -> Path:  # noqa: ANN401 - a class of the JVM
    return Path(str(path.toUri().getPath()))
