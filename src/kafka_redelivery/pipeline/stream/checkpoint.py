"""Spark's checkpoint compared with the group's committed offsets.

If the checkpoint is behind, tasks skip the repeated records. If Kafka no longer keeps those records, Spark would report
data loss, so the checkpoint is removed. If the checkpoint is ahead, because the group's offsets were reset or deleted,
Spark would silently skip the records between, so the query is refused.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kafka_redelivery.pipeline.errors import StreamRefusedError, first_line
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.kafka_checkpoint import note_topics, older_topics
from kafka_redelivery.pipeline.stream.start_offsets import ready_topics
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.clients.assigned_reader import AssignedReader
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_MAX_POLLS: Final = 150
_NO_OFFSET: Final = "-"
"""What Spark writes for a source without an offset."""


def group_checkpoint(session: SparkSession, settings: Settings, folder: str) -> str:
    """Return the folder of this group's checkpoint below ``pipeline.checkpoint``, which other groups may use, too.

    Earlier versions named it ``stream`` for every group. Such a checkpoint is used if it has a ready topic of this
    group, since no other group has that topic.

    Args:
        session: the session.
        settings: the configuration.
        folder: the folder ``pipeline.checkpoint``.
    """
    earlier = f"{folder}/stream"
    if {partition.topic for partition in checkpoint_offsets(session, earlier)}.intersection(ready_topics(settings)):
        return earlier
    # Escaped, because the name of a group may contain "/"; not with "%", which is an escape in URIs, too.
    return f"{folder}/{quote(settings.group, safe='').replace('%', '=')}.stream"


def remove_stale_checkpoint(
    session: SparkSession,
    settings: Settings,
    checkpoint: str,
    starts: Mapping[Partition, int],
    marks: Mapping[str, str],
) -> None:
    """Remove a checkpoint that Spark cannot continue from although the group can. The query then starts at ``starts``.

    Such a checkpoint has other topics or partitions than the query, or offsets that Kafka no longer keeps. A topic
    that was deleted and created again is another topic.

    Args:
        session: the session.
        settings: the configuration.
        checkpoint: the checkpoint's folder.
        starts: the group's offsets.
        marks: the mark of each topic, as far as it is known. The checkpoint is about these topics from now on.

    Raises:
        TransportError: Kafka does not answer.
    """
    files = LakeFiles(session, checkpoint)
    reason = _why_stale(session, settings, checkpoint, starts, older_topics(files, marks))
    if reason:
        _log.info("the checkpoint %s %s: starting at the group's offsets", checkpoint, reason)
        files.delete("")
    note_topics(files, marks)


def _why_stale(
    session: SparkSession, settings: Settings, checkpoint: str, starts: Mapping[Partition, int], older: Sequence[str]
) -> str:
    noted = checkpoint_offsets(session, checkpoint)
    if not noted:
        return ""
    if older:
        return f"is about an older topic {older[0]}"
    behind = [partition for partition, offset in noted.items() if offset < starts.get(partition, offset)]
    log_starts = PartitionOffsets(settings.kafka).log_start_offsets(behind)
    removed = [partition for partition in behind if noted[partition] < log_starts[partition]]
    if removed:
        topic, number = removed[0]
        return f"is at {topic}-{number}@{noted[removed[0]]}, which Kafka no longer keeps"
    return "" if noted.keys() == starts.keys() else "has other partitions"


def refuse_skipped_records(
    session: SparkSession, settings: Settings, checkpoint: str, starts: Mapping[Partition, int]
) -> None:
    """Refuse a checkpoint that would make Spark skip records.

    Args:
        session: the session.
        settings: the configuration.
        checkpoint: the checkpoint's folder.
        starts: the group's offsets.

    Raises:
        StreamRefusedError: there are records between the group's offset and the checkpoint's; names the first.
    """
    noted = checkpoint_offsets(session, checkpoint)
    ahead = {partition: start for partition, start in starts.items() if start < noted.get(partition, start)}
    if not ahead:
        return
    reader = AssignedReader(settings.kafka, settings.group)
    try:
        for partition, start in ahead.items():
            _refuse_skipped(reader, partition, start, noted[partition], checkpoint)
    finally:
        reader.close()


def refuse_unwritable(session: SparkSession, checkpoint: str) -> None:
    """Create the folder of the checkpoint and refuse one that is not writable.

    Raises:
        StreamRefusedError: the folder is not writable; says why.
    """
    try:
        files = LakeFiles(session, checkpoint)
        name = f"_writable-{secrets.token_hex(4)}"  # other groups may use the folder
        files.write(name, "")
        files.delete(name)
    except Exception as error:  # errors of the file system, wrapped by py4j
        raise StreamRefusedError(
            f"the checkpoint {checkpoint} cannot be written ({first_line(error)}); name a writable folder under "
            "pipeline.checkpoint, or correct the permissions"
        ) from error


def _refuse_skipped(reader: AssignedReader, partition: Partition, start: int, noted: int, checkpoint: str) -> None:
    state = f"the checkpoint {checkpoint} is at {partition}@{noted}, the group at {start}"
    reader.assign({partition: start})
    for _ in range(_MAX_POLLS):
        for message in reader.fetch(1, _POLL_S):
            if message.offset() >= noted:
                return
            raise StreamRefusedError(
                f"{state}: the records from {message.offset()} on would be left out; were the group's offsets reset? "
                "Remove the checkpoint to start at the group's offset, or set the group's offset to the checkpoint's"
            )
        if reader.lag(partition, noted) == 0:
            return  # only transaction markers
    raise StreamRefusedError(
        f"{state}, and Kafka does not return within {_POLL_S * _MAX_POLLS:.0f} s whether there are records between; "
        "try again, or remove the checkpoint"
    )


def checkpoint_offsets(session: SparkSession, checkpoint: str) -> dict[Partition, int]:
    """Return the offsets that a query with this checkpoint starts from; empty for a new checkpoint."""
    files = LakeFiles(session, checkpoint)
    committed = max(_numbers(files, "commits"), default=None)
    if committed is not None:
        return _offsets(*_lines(files, f"offsets/{committed}")[2:])
    first = [f"sources/{source}" for source in _numbers(files, "sources")]
    return _offsets(*(_lines(files, f"{source}/0")[-1] for source in first if 0 in _numbers(files, source)))


def _numbers(files: LakeFiles, folder: str) -> list[int]:
    return [int(name) for name in files.names(folder) if name.isdigit()]


def _lines(files: LakeFiles, name: str) -> list[str]:
    return [line for line in files.read(name).splitlines() if line.strip()]


def _offsets(*texts: str) -> dict[Partition, int]:
    """Merge the offsets of the query's sources."""
    found: list[dict[str, dict[str, int]]] = [json.loads(text) for text in texts if text != _NO_OFFSET]
    return {
        Partition(topic, int(number)): offset
        for topics in found
        for topic, offsets in topics.items()
        for number, offset in offsets.items()
    }
