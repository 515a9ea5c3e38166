"""Codecs in the Python workers of Spark, and functions of Arrow columns that use them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.topology.config.settings import CodecSection, Settings

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


_UP: Final = os.pardir + os.sep


@dataclass(frozen=True, slots=True)
class SchemaFiles:
    """The contents of the schema files."""

    contents: tuple[tuple[str, bytes], ...] = ()
    """Path relative to the folder of the configuration, and content. Files with an absolute path are not included."""

    @classmethod
    def of(cls, settings: Settings, base: Path) -> SchemaFiles:
        """Read the files that sources and outputs name, and the ``.avsc`` files next to them, which may define types.

        A file that cannot be read is skipped; the codec that needs it reports it.
        """
        named = {name for section in (*settings.sources, *settings.outputs) for name in _named(section)}
        paths = {base / name for name in named if not Path(name).is_absolute()}
        paths |= {sibling for path in paths for sibling in path.parent.glob("*.avsc")}
        return cls(tuple(sorted(_read(paths, base))))

    def folder(self, base: Path) -> Path:
        """Return the folder that relative paths start from on this machine: ``base``, or a copy of the schemas.

        Args:
            base: the folder of the configuration on the driver.

        Raises:
            OSError: the copy cannot be written.
        """
        if all(_holds(base / name, content) for name, content in self.contents):
            return base
        from pyspark import SparkFiles  # noqa: PLC0415 - a handler process does not need it and starts faster without

        above = max(name.count(_UP) for name, _ in self.contents)
        ours = Path(SparkFiles.getRootDirectory()).absolute()
        copy = ours / f"schemas-{sha256(repr(self.contents).encode()).hexdigest()[:16]}"
        folder = Path(*["configuration"] * (above + 1))
        if not copy.exists():
            making = Path(tempfile.mkdtemp(prefix=".schemas-", dir=ours))
            (making / folder).mkdir(parents=True)
            for name, content in self.contents:
                path = making / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            with suppress(OSError):  # another Python worker has created it first
                making.rename(copy)
        return copy / folder


def _named(section: CodecSection) -> Iterator[str]:
    for side in (section.key, section.value):
        yield from side.schemas.values()
        if side.reader is not None:
            yield side.reader


def _read(paths: set[Path], base: Path) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        with suppress(OSError):
            yield os.path.relpath(path, base), path.read_bytes()


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


@lru_cache
def codecs_here(section: str, base: str, schemas: SchemaFiles) -> tuple[Codec, Codec]:
    """Create the codecs of a topic, once in each Python worker.

    Args:
        section: its :class:`CodecSection` as JSON.
        base: the folder of the configuration on the driver.
        schemas: for executors that do not have it.

    Raises:
        SerdeError: a schema cannot be read, or settings contradict each other.
    """
    return codecs(CodecSection.model_validate_json(section), schemas.folder(Path(base)))


def arrow_function(function: Callable[..., Any], returns: DataType | str) -> Callable[..., Column]:
    """Return a function of Arrow arrays, which returns one, as a function of columns."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    made: Callable[..., Column] = F.arrow_udf(function, returns)  # type: ignore[attr-defined]  # not in its stubs
    return made
