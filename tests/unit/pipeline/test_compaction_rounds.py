"""Which files a compaction takes, and how many it makes of them."""

import pytest

from pipeline import compaction
from pipeline.compaction import _Round, _rounds
from pipeline.sink_log import Entry

_TARGET = 100


def _entries(folder: str, *sizes: int) -> list[Entry]:
    return [{"path": f"file:/t/{folder}/{number}.parquet", "size": size} for number, size in enumerate(sizes)]


def _chosen(entries: list[Entry], least: int = 2) -> list[list[int]]:
    """Sizes of each round, folder after folder."""
    rounds = _rounds(entries, _TARGET, least)
    return [[int(str(entry["size"])) for each in chosen.values() for entry in each] for chosen in rounds]


def test_small_files_are_those_below_half_the_target() -> None:
    """Larger ones are left alone, and folders with fewer small ones than asked for."""
    entries = [*_entries("a", 10, 49, 50, 100), *_entries("b", 10), *_entries("c", 1, 2, 3)]

    assert _chosen(entries) == [[10, 49, 1, 2, 3]]
    assert _chosen(entries, least=3) == [[1, 2, 3]]


def test_a_folder_of_more_than_one_file_is_a_round_of_its_own() -> None:
    """And is made into as many files as it needs, not one more."""
    entries = [*_entries("a", 1, 1), *_entries("b", 40, 40, 20), *_entries("c", 40, 40, 21), *_entries("d", 1, 1)]

    assert _chosen(entries) == [[40, 40, 21], [1, 1, 40, 40, 20, 1, 1]]
    pieces = [_Round(0, 0, chosen, _TARGET).pieces for chosen in _rounds(entries, _TARGET, 2)]
    assert pieces == [2, 1]


def test_a_round_takes_no_more_than_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit by number or by size comes in the next one, and nothing is left out."""
    entries = [*_entries("a", 1, 1), *_entries("b", 1, 1), *_entries("c", 45, 45), *_entries("d", 45, 45)]

    monkeypatch.setattr(compaction, "_ROUND_FILES", 4)
    assert _chosen(entries) == [[1, 1, 1, 1], [45, 45, 45, 45]]
    monkeypatch.setattr(compaction, "_ROUND_FILES", 100)
    monkeypatch.setattr(compaction, "_ROUND_BYTES", 94)
    assert _chosen(entries) == [[1, 1, 1, 1, 45, 45], [45, 45]]
