"""Spark's own notes of where its query is, held against what the group has committed.

If Spark's notes are behind, what it repeats is skipped; unless that is gone, which Spark would take for a loss. If they
are ahead, the records between have been handled by nobody: the group's offsets were set back, or deleted, since. Spark
would go on behind them without a word.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import StreamRefusedError
from pipeline.spark_errors import first_line
from topology.settings import Settings
from transport.assigned_reader import AssignedReader
from transport.positions import Positions
from transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
_LOOKS: Final = 150
_NONE: Final = "-"
"""What Spark writes of a reader that has no offset yet."""


def drop_if_stale(session: SparkSession, settings: Settings, checkpoint: str, starts: Mapping[Partition, int]) -> None:
    """Remove notes that Spark could not go on from, though the group can: the query then begins where the group is.

    They are of other topics or partitions than it has now, or older than what Kafka keeps.

    Args:
        session: reads the notes, wherever they are.
        settings: the configuration.
        checkpoint: the query's folder.
        starts: where the group is.

    Raises:
        TransportError: Kafka does not answer.
    """
    noted = noted_start(session, checkpoint)
    if not noted:
        return
    behind = [place for place, offset in noted.items() if offset < starts.get(place, offset)]
    kept = Positions(settings.kafka).starts(behind)
    gone = [place for place in behind if noted[place] < kept[place]]
    if noted.keys() == starts.keys() and not gone:
        return
    why = "of other partitions" if not gone else f"at {gone[0].topic}-{gone[0].number}@{noted[gone[0]]}, which is gone"
    _log.info("the checkpoint %s is %s: beginning where the group is", checkpoint, why)
    _Files(session, checkpoint).remove()


def refuse_gaps(session: SparkSession, settings: Settings, checkpoint: str, starts: Mapping[Partition, int]) -> None:
    """Refuse to begin where records would be left out.

    Args:
        session: reads the notes, wherever they are.
        settings: the configuration.
        checkpoint: the query's folder.
        starts: where the group is.

    Raises:
        StreamRefusedError: there are records between; names the first.
    """
    noted = noted_start(session, checkpoint)
    ahead = {place: start for place, start in starts.items() if start < noted.get(place, start)}
    if not ahead:
        return
    reader = AssignedReader(settings.kafka, settings.group)
    try:
        reader.assign(ahead)
        for place, start in ahead.items():
            _refuse_gap(reader, place, start, noted[place], checkpoint)
    finally:
        reader.close()


def refuse_unwritable(session: SparkSession, checkpoint: str) -> None:
    """Make the folder, and refuse one that cannot be written.

    Raises:
        StreamRefusedError: says why.
    """
    try:
        _Files(session, checkpoint).try_to_write()
    except Exception as error:  # whatever the file system raises, in Spark's clothes
        raise StreamRefusedError(
            f"the checkpoint {checkpoint} cannot be written ({first_line(error)}); name a folder that can be under "
            "pipeline.checkpoint, or see to the rights"
        ) from error


def _refuse_gap(reader: AssignedReader, place: Partition, start: int, noted: int, checkpoint: str) -> None:
    reader.assign({place: start})
    for _ in range(_LOOKS):
        for message in reader.fetch(1, _LOOK_S):
            if message.offset() >= noted:
                return
            raise StreamRefusedError(
                f"the checkpoint {checkpoint} is at {place.topic}-{place.number}@{noted}, the group at {start}: the "
                f"records from {message.offset()} on would be left out; were the group's offsets set back? "
                "Remove the checkpoint to begin where the group is, or set the group's offset to the checkpoint's"
            )
        if reader.unread(place, noted) == 0:
            return  # nothing but markers of transactions
    raise StreamRefusedError(
        f"the checkpoint {checkpoint} is at {place.topic}-{place.number}@{noted}, the group at {start}, and Kafka does "
        f"not tell within {_LOOK_S * _LOOKS:.0f} s whether there are records between; try again, or remove it"
    )


def noted_start(session: SparkSession, checkpoint: str) -> dict[Partition, int]:
    """Where a query with this checkpoint begins; empty if it is a new one."""
    files = _Files(session, checkpoint)
    committed = max(files.numbers("commits"), default=None)
    if committed is not None:
        return _offsets(*files.lines(f"offsets/{committed}")[2:])
    first = [f"sources/{source}" for source in files.numbers("sources")]
    return _offsets(*(files.lines(f"{source}/0")[-1] for source in first if 0 in files.numbers(source)))


def _offsets(*texts: str) -> dict[Partition, int]:
    """A text for each of the query's readers."""
    found: list[dict[str, dict[str, int]]] = [json.loads(text) for text in texts if text != _NONE]
    return {
        Partition(topic, int(number)): offset
        for topics in found
        for topic, places in topics.items()
        for number, offset in places.items()
    }


class _Files:
    """A folder on any file system that Spark knows."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        context: Any = session.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - the only way to Hadoop's file systems
        self._folder = folder
        path = self._path("")
        self._system = path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001

    def _path(self, name: str) -> Any:  # noqa: ANN401 - an object of the JVM
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}" if name else self._folder)

    def try_to_write(self) -> None:
        """Make the folder and, for a moment, a file in it."""
        self._system.mkdirs(self._path(""))
        file = self._path("_writable")
        self._system.create(file).close()
        self._system.delete(file, False)  # noqa: FBT003 - Java knows no names of arguments

    def numbers(self, folder: str) -> list[int]:
        """The files whose names are numbers."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        names = [status.getPath().getName() for status in self._system.listStatus(path)]
        return [int(name) for name in names if name.isdigit()]

    def remove(self) -> None:
        """The whole folder."""
        self._system.delete(self._path(""), True)  # noqa: FBT003 - with what is in it

    def lines(self, name: str) -> list[str]:
        """What stands in one."""
        stream = self._system.open(self._path(name))
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return [line for line in text.splitlines() if line.strip()]
