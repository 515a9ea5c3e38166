"""Spark's checkpoint compared with the group's committed offsets.

If the checkpoint is behind, tasks skip the repeated records. If Kafka no longer keeps those records, Spark would report
data loss, so the checkpoint is removed. If the checkpoint is ahead, because the group's offsets were reset or deleted,
Spark would silently skip the records between, so the query is refused.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kafka_redelivery.pipeline.errors import PipelineRefusedError, first_line
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.kafka_checkpoint import next_offsets, note_topics, older_topics
from kafka_redelivery.pipeline.stream.start_offsets import ready_topics
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_STALLED_S: Final = 30.0
"""How long Kafka may send nothing while the records between are read."""


def prepare_checkpoint(
    session: SparkSession, settings: Settings, folder: str, starts: Mapping[Partition, int], marks: Mapping[str, str]
) -> str:
    """Return the folder of this group's checkpoint, which a query can continue from, or which is empty.

    A checkpoint is removed that Spark cannot continue from although the group can: one with other topics or partitions
    than the query, or offsets that Kafka no longer keeps. A topic that was deleted and created again is another topic.

    Args:
        session: the session.
        settings: the configuration.
        folder: the folder ``pipeline.checkpoint``.
        starts: the group's offsets.
        marks: the mark of each topic, as far as it is known. The checkpoint is about these topics from now on.

    Raises:
        PipelineError: the checkpoint cannot be read.
        PipelineRefusedError: it cannot be written, or would make Spark skip records.
        TransportError: Kafka does not answer.
    """
    refuse_unwritable(session, folder)
    checkpoint = _group_checkpoint(session, settings, folder)
    refuse_unwritable(session, checkpoint)
    files = LakeFiles(session, checkpoint)
    noted = next_offsets(files)
    reason = _why_stale(settings, noted, starts, older_topics(files, marks))
    if reason:
        _log.info("the checkpoint %s %s: starting at the group's offsets", checkpoint, reason)
        files.delete("")
    else:
        refuse_skipped_records(settings, checkpoint, noted, starts)
    note_topics(files, marks)
    return checkpoint


def _group_checkpoint(session: SparkSession, settings: Settings, folder: str) -> str:
    """Return the folder of this group's checkpoint below ``pipeline.checkpoint``, which other groups may use, too.

    Earlier versions named it ``stream`` for every group. Such a checkpoint is used if it has a ready topic of this
    group, since no other group has that topic.
    """
    earlier = f"{folder}/stream"
    known = {partition.topic for partition in next_offsets(LakeFiles(session, earlier))}
    if known.intersection(ready_topics(settings)):
        return earlier
    # Escaped, because the name of a group may contain "/"; not with "%", which is an escape in URIs, too.
    return f"{folder}/{quote(settings.group, safe='').replace('%', '=')}.stream"


def _why_stale(
    settings: Settings, noted: Mapping[Partition, int], starts: Mapping[Partition, int], older: Sequence[str]
) -> str:
    if not noted:
        return ""
    if older:
        return f"is about an older topic {older[0]}"
    behind = [partition for partition, offset in noted.items() if offset < starts.get(partition, offset)]
    log_starts = PartitionOffsets(settings.kafka).log_start_offsets(behind)
    removed = [partition for partition in behind if noted[partition] < log_starts[partition]]
    if removed:
        return f"is at {removed[0]}@{noted[removed[0]]}, which Kafka no longer keeps"
    return "" if noted.keys() == starts.keys() else "has other partitions"


def refuse_skipped_records(
    settings: Settings, checkpoint: str, noted: Mapping[Partition, int], starts: Mapping[Partition, int]
) -> None:
    """Refuse a checkpoint that would make Spark skip records.

    Args:
        settings: the configuration.
        checkpoint: the checkpoint's folder.
        noted: its offsets.
        starts: the group's offsets.

    Raises:
        PipelineRefusedError: there are records between the group's offset and the checkpoint's; names the first.
    """
    for partition, start in starts.items():
        end = noted.get(partition, start)
        if start < end:
            state = f"the checkpoint {checkpoint} is at {partition}@{end}, the group at {start}"
            wanted = {partition: start}, {partition: end}
            try:
                first = next(read_between(settings.kafka, settings.group, *wanted, stalled_s=_STALLED_S), None)
            except ReaderError as error:
                raise PipelineRefusedError(f"{state}, and {error}; try again, or remove the checkpoint") from error
            if first is not None:  # not only transaction markers
                raise PipelineRefusedError(
                    f"{state}: the records from {first.offset()} on would be left out; were the group's offsets reset? "
                    "Remove the checkpoint to start at the group's offset, or set the group's offset to the "
                    "checkpoint's"
                )


def refuse_unwritable(session: SparkSession, checkpoint: str) -> None:
    """Create the folder of the checkpoint and refuse one that is not writable.

    Raises:
        PipelineRefusedError: the folder is not writable; says why.
    """
    try:
        files = LakeFiles(session, checkpoint)
        name = f"_writable-{secrets.token_hex(4)}"  # other groups may use the folder
        files.write(name, "")
        files.delete(name)
    except Exception as error:  # errors of the file system, wrapped by py4j
        raise PipelineRefusedError(
            f"the checkpoint {checkpoint} cannot be written ({first_line(error)}); name a writable folder under "
            "pipeline.checkpoint, or correct the permissions"
        ) from error
