"""A checkpoint forgets topics that were created again, and keeps everything else."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kafka_redelivery.pipeline.lake.kafka_checkpoint import drop_topics, note_topics, older_topics

_OLD, _NEW, _MIRRORED = "AAAA11111111", "AAAA22222222", "BBBB11111111"


class Files:
    """Files in memory."""

    def __init__(self, texts: Mapping[str, str], *, replaces_atomically: bool = True) -> None:
        self.texts = dict(texts)
        self.replaces_atomically = replaces_atomically

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        below = [name.removeprefix(f"{folder}/") for name in self.texts if name.startswith(f"{folder}/") or not folder]
        return sorted({name.split("/")[0] for name in below})

    def read(self, name: str) -> str:
        """Return a text."""
        return self.texts[name]

    def write(self, name: str, text: str) -> None:
        """Write a text."""
        self.texts[name] = text

    def replace(self, new: str, old: str) -> None:
        """Replace a text."""
        self.texts[old] = self.texts.pop(new)


def batch(*sources: str) -> str:
    """The log of a micro-batch."""
    return "\n".join(["v1", '{"batchWatermarkMs":0,"conf":{"a":"b"}}', *sources])


@pytest.mark.parametrize("atomic", [True, False])
def test_a_topic_is_forgotten_where_spark_may_begin(atomic: bool) -> None:  # noqa: FBT001 - a parameter
    """In the last micro-batch, in the one before, and in the first offsets. What is older Spark does not read."""
    both = '{"t":{"0":5,"1":7},"u":{"0":3}}'
    texts = {
        "metadata": '{"id":"t"}',
        "offsets/8": batch(both),
        "offsets/9": batch(both, "-"),
        "offsets/10": batch('{"u":{"0":4}}', '{"t":{"0":9}}'),
        "offsets/.10.crc": "t",
        "commits/9": "v1\n{}",
        "sources/0/0": f"\x00v1\n{both}",
    }
    files: Any = Files(texts, replaces_atomically=atomic)

    drop_topics(files, ["t"])

    assert files.texts == texts | {
        "offsets/9": batch('{"u":{"0":3}}', "-"),
        "offsets/10": batch('{"u":{"0":4}}', "{}"),
        "sources/0/0": '\x00v1\n{"u":{"0":3}}',
    }


def test_a_new_checkpoint_has_nothing_to_forget() -> None:
    """Nothing is written."""
    files: Any = Files({})
    drop_topics(files, ["t"])
    assert files.texts == {}


def test_topics_are_compared_with_those_that_were_noted() -> None:
    """Only another topic of the same cluster is another one. Of topics without a mark nothing is known."""
    files: Any = Files({})
    assert older_topics(files, {"t": _NEW}) == []
    note_topics(files, {"t": _OLD, "u": "", "v": _MIRRORED})
    assert older_topics(files, {"t": _NEW, "u": _NEW, "v": _NEW}) == ["t"]
    assert older_topics(files, {"u": _NEW}) == []
    note_topics(files, {"t": _NEW})
    assert older_topics(files, {"t": _NEW, "v": _MIRRORED}) == []
    assert list(files.texts) == ["kafka-topics.json"]


def test_marks_that_another_program_wrote_are_unknown() -> None:
    """The checkpoint is continued as one of an earlier version."""
    for text in ("", "[]", "{", json.dumps("t")):
        files: Any = Files({"kafka-topics.json": text})
        assert older_topics(files, {"t": _NEW}) == []
