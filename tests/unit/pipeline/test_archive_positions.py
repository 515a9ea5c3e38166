"""What an archive has yet to read, and what it can read no more."""

import json

from pipeline.archive_positions import EARLIEST, Positions, Removed
from topology.facts import Bounds

_READ, _TRIMMED, _NEW = ("DLQ.orders", 0), ("DLQ.orders", 1), ("DLQ.orders", 2)
_BOUNDS = {_READ: Bounds(3, 9), _TRIMMED: Bounds(6, 9), _NEW: Bounds(2, 9)}


def test_what_was_removed_unread_is_told_to_the_offset() -> None:
    """Also of a partition that has come since the last run; what was archived before it went is not lost."""
    found = Positions(_BOUNDS, {_READ: 3, _TRIMMED: 5})

    assert found.removed == [Removed(*_TRIMMED, 5, 6), Removed(*_NEW, 0, 2)]
    assert [each.place for each in found.removed] == ["DLQ.orders-1@5..5", "DLQ.orders-2@0..1"]


def test_before_the_first_run_nothing_counts_as_removed() -> None:
    """What a topic's retention took before there was an archive is not its loss."""
    assert Positions(_BOUNDS).removed == []


def test_what_is_not_archived_begins_behind_the_archive() -> None:
    """At the next offset, or at the first that is left, or at the very beginning."""
    found = Positions(_BOUNDS, {_READ: 7, _TRIMMED: 5})

    assert json.loads(found.starting_offsets()) == {"DLQ.orders": {"0": 7, "1": 6, "2": EARLIEST}}
