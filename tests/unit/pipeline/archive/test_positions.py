"""The offsets that an archive has still to read, and those that Kafka removed."""

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kafka_redelivery.pipeline.archive import archive
from kafka_redelivery.pipeline.archive.archive import Positions, RemovedLetters
from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.topology.cluster.facts import Bounds
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition

_READ, _TRIMMED, _NEW = (Partition("DLQ.orders", number) for number in range(3))
_BOUNDS = {_READ: Bounds(3, 9), _TRIMMED: Bounds(6, 9), _NEW: Bounds(2, 9)}


def test_removed_dead_letters_are_reported_by_offset() -> None:
    """This includes a new partition, and excludes dead letters that were archived before their removal."""
    found = Positions(_BOUNDS, {_READ: 3, _TRIMMED: 5})

    assert found.removed == [RemovedLetters(*_TRIMMED, 5, 6), RemovedLetters(*_NEW, 0, 2)]
    assert [each.location for each in found.removed] == ["DLQ.orders-1@5..5", "DLQ.orders-2@0..1"]


def test_before_the_first_run_no_dead_letter_counts_as_removed() -> None:
    """Dead letters that were removed before the archive existed do not count."""
    assert Positions(_BOUNDS).removed == []


def test_the_next_run_starts_after_the_archived_offsets() -> None:
    """It starts at the next offset, at the first offset that is left, which is that of a new partition."""
    found = Positions(_BOUNDS, {_READ: 7, _TRIMMED: 5})

    assert found.starts() == {_READ: 7, _TRIMMED: 6, _NEW: 2}


def test_a_topic_that_was_created_again_is_read_from_its_start() -> None:
    """What was archived of the older one does not count; dead letters that the new one has lost already do."""
    other = Partition("DLQ.bills", 0)
    found = Positions({_TRIMMED: Bounds(2, 9), other: Bounds(0, 9)}, {_TRIMMED: 7, other: 4}).without(["DLQ.orders"])

    assert found.starts() == {_TRIMMED: 2, other: 4}
    assert found.removed == [RemovedLetters(*_TRIMMED, 0, 2)]
    alone = Positions({_TRIMMED: Bounds(2, 9)}, {_TRIMMED: 7}).without(["DLQ.orders"])
    assert alone.removed == [RemovedLetters(*_TRIMMED, 0, 2)], "it is no first run"


def test_topics_that_were_deleted_after_they_were_archived() -> None:
    """Spark would end the query without saying how to go on. Topics that do not exist yet are no hindrance."""
    found = Positions({_NEW: Bounds(0, 9)}, {_NEW: 4, Partition("DLQ.bills", 0): 7}, missing=("DLQ.bills", "DLQ.later"))

    assert found.deleted == ["DLQ.bills"]


def test_a_topic_that_was_deleted_after_it_was_archived_stops_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to go on."""
    found = Positions({_NEW: Bounds(0, 9)}, {_NEW: 4, Partition("DLQ.bills", 0): 7}, missing=("DLQ.bills",))
    monkeypatch.setattr(archive, "check_table", lambda *_: None)
    monkeypatch.setattr(archive, "read_positions", lambda *_: found)
    settings = load_settings("{group: g, kafka: {bootstrap.servers: nowhere}, sources: [{topic: orders}]}")
    with pytest.raises(PipelineError, match=r"topic DLQ\.bills was archived before.*run once with --skip-removed"):
        archive.run_archive(MagicMock(), archive.Archive.of(settings, Path(), "table"))
