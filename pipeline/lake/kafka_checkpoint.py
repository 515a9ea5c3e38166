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
        files.write(_MARKS, json.dumps(now, indent=1, sort_keys=True))


def _noted(files: LakeFiles) -> dict[str, str]:
    if _MARKS not in files.names(""):
        return {}
    try:
        found = json.loads(files.read(_MARKS))
        return {str(name): str(mark) for name, mark in found.items()}
    except (ValueError, AttributeError):  # a crash has left a part of it
        return {}
