"""Spark's checkpoint of a query over Kafka: where it begins, and which topics it is about.

Spark knows topics only by their names. Their marks are in a file of ours in the folder of the checkpoint, which Spark
does not read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from typing import Final

from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.spark.kafka_options import offsets_of
from kafka_redelivery.topology.wire.topic_mark import is_other_topic
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_MARKS: Final = "kafka-topics.json"
_NEW: Final = "kafka-topics.new"
_HEAD_OF_BATCH: Final = 2
"""Lines of the log of a micro-batch before the offsets of its sources: the version, and settings."""

_HEAD_OF_SOURCE: Final = 1
"""Lines before the first offsets of a source: the version."""


def next_offsets(files: LakeFiles) -> dict[Partition, int]:
    """Return the offsets that a query with this checkpoint begins at; empty for a new checkpoint.

    Raises:
        PipelineError: the checkpoint cannot be read.
    """
    committed = _numbers(files, "commits")
    logs = [(f"offsets/{max(committed)}", _HEAD_OF_BATCH)] if committed else _first_offsets(files)
    found: dict[Partition, int] = {}
    for name, head in logs:
        offsets = [line for line in files.read(name).splitlines()[head:] if line.startswith("{")]
        if committed and not offsets:
            raise _unreadable(files, name, "it has no offsets")
        for text in offsets:
            try:
                found |= offsets_of(json.loads(text))
            except (ValueError, AttributeError) as error:
                raise _unreadable(files, name, str(error)) from None
    return found


def older_topics(files: LakeFiles, marks: Mapping[str, str]) -> list[str]:
    """Return the topics that were created again since the checkpoint was about them.

    Args:
        files: the checkpoint.
        marks: the mark of each topic now. One that is unknown, there or here, does not count as another topic.
    """
    return sorted(name for name, mark in _noted(files).items() if is_other_topic(mark, marks.get(name, "")))


def note_topics(files: LakeFiles, marks: Mapping[str, str]) -> None:
    """Note which topics the checkpoint is about from now on. What is known of other topics stays."""
    before = _noted(files)
    now = before | {name: mark for name, mark in marks.items() if mark}
    if now != before:
        _replace(files, _MARKS, json.dumps(now, indent=1, sort_keys=True))


def begin_anew(files: LakeFiles, older: Collection[str], marks: Mapping[str, str]) -> None:
    """Let a query that appends to a table begin at the start of topics that were created again. No query may run.

    Args:
        files: the checkpoint.
        older: the topics.
        marks: the mark of each topic now.
    """
    for topic in older:
        _log.warning(
            "topic %s was deleted and created again: the table gets the new one from its start; records of the older "
            "one that were not appended are gone with it",
            topic,
        )
    drop_topics(files, older)
    note_topics(files, marks)


def drop_topics(files: LakeFiles, topics: Collection[str]) -> None:
    """Take the offsets of topics out of a checkpoint, so that the query reads these topics from their start.

    For tables: their logs know the micro-batches by number, so the checkpoint has to stay. Spark finds the offsets of
    the last micro-batch in the last log, and begins it after the log before, or after the first offsets of its source,
    if it was interrupted. Such a micro-batch is repeated without these topics, whose records are gone.

    Args:
        files: the checkpoint. No query may run with it.
        topics: the topics.
    """
    batches = sorted(_numbers(files, "offsets"))[-2:]
    for name, head in [*((f"offsets/{batch}", _HEAD_OF_BATCH) for batch in batches), *_first_offsets(files)]:
        lines = files.read(name).splitlines()
        changed = [*lines[:head], *(_without(line, topics) for line in lines[head:])]
        if changed != lines:
            _replace(files, name, "\n".join(changed))


def _unreadable(files: LakeFiles, name: str, problem: str) -> PipelineError:
    return PipelineError(
        f"{files.root}/{name} cannot be read: {problem}; restore it. Without its checkpoint a table would get all "
        "records again: start a new table. A streaming query without a table begins at the group's offsets: remove its "
        "checkpoint"
    )


def _numbers(files: LakeFiles, folder: str) -> list[int]:
    return [int(name) for name in files.names(folder) if name.isdigit()]


def _first_offsets(files: LakeFiles) -> list[tuple[str, int]]:
    """Return the logs of the first offsets of each source, and the lines before the offsets."""
    sources = [f"sources/{name}" for name in files.names("sources")]
    return [(f"{source}/0", _HEAD_OF_SOURCE) for source in sources if "0" in files.names(source)]


def _without(line: str, topics: Collection[str]) -> str:
    """Return the offsets of a source without some topics. A source without an offset has no JSON."""
    if not line.startswith("{"):
        return line
    found = json.loads(line)
    kept = {topic: offsets for topic, offsets in found.items() if topic not in topics}
    return line if kept == found else json.dumps(kept, separators=(",", ":"))


def _replace(files: LakeFiles, name: str, text: str) -> None:
    if files.replaces_atomically:
        files.write(_NEW, text)
        files.replace(_NEW, name)
    else:  # an object store shows a file when it is complete
        files.write(name, text)


def _noted(files: LakeFiles) -> dict[str, str]:
    if _MARKS not in files.names(""):
        return {}
    try:
        found = json.loads(files.read(_MARKS))
        return {str(name): str(mark) for name, mark in found.items()}
    except (ValueError, AttributeError):  # another program wrote it
        return {}
