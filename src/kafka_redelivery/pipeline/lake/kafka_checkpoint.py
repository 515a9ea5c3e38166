"""Which topics Spark's checkpoint of a query over Kafka is about: Spark knows them only by their names.

The marks of the topics are in a file of ours in the folder of the checkpoint, which Spark does not read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.topology.wire.topic_mark import is_other_topic

_MARKS: Final = "kafka-topics.json"
_NEW: Final = "kafka-topics.new"
_HEAD_OF_BATCH: Final = 2
"""Lines of the log of a micro-batch before the offsets of its sources: the version, and settings."""

_HEAD_OF_SOURCE: Final = 1
"""Lines before the first offsets of a source: the version."""


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


def forget_topics(files: LakeFiles, topics: Collection[str]) -> None:
    """Take the offsets of topics out of a checkpoint, so that the query reads these topics from their start.

    For tables: their logs know the micro-batches by number, so the checkpoint has to stay. Spark finds the offsets of
    the last micro-batch in the last log, and begins it after the log before, or after the first offsets of its source,
    if it was interrupted. Such a micro-batch is repeated without these topics, whose records are gone.

    Args:
        files: the checkpoint. No query may run with it.
        topics: the topics.
    """
    batches = sorted(int(name) for name in files.names("offsets") if name.isdigit())[-2:]
    logs = [(f"offsets/{batch}", _HEAD_OF_BATCH) for batch in batches]
    sources = [f"sources/{name}" for name in files.names("sources")]
    logs += [(f"{source}/0", _HEAD_OF_SOURCE) for source in sources if "0" in files.names(source)]
    for name, head in logs:
        lines = files.read(name).splitlines()
        changed = [*lines[:head], *(_without(line, topics) for line in lines[head:])]
        if changed != lines:
            _replace(files, name, "\n".join(changed))


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
