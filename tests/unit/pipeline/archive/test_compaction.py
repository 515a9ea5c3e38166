"""The files that a compaction selects, and the number of merged files."""

import pytest

from kafka_redelivery.pipeline.archive import rewriting
from kafka_redelivery.pipeline.archive.compaction import _small_files
from kafka_redelivery.pipeline.archive.rewriting import Folders, Rewrite, rewrites
from kafka_redelivery.pipeline.lake.sink_log import Entry

_TARGET = 100


def _entries(folder: str, *sizes: int) -> list[Entry]:
    return [{"path": f"file:/t/{folder}/{number}.parquet", "size": size} for number, size in enumerate(sizes)]


def _chosen(entries: list[Entry], min_files: int = 2) -> list[list[int]]:
    """Return the sizes of the files of each rewrite."""
    found = _rewrites(entries, min_files)
    return [[int(str(entry["size"])) for each in chosen.values() for entry in each] for chosen in found]


def _rewrites(entries: list[Entry], min_files: int = 2) -> list[Folders]:
    return list(rewrites(_small_files(entries, _TARGET, min_files), _TARGET))


def test_small_files_are_those_below_half_the_target() -> None:
    """Larger files are skipped, and so are folders with fewer small files than ``min_files``."""
    entries = [*_entries("a", 10, 49, 50, 100), *_entries("b", 10), *_entries("c", 1, 2, 3)]

    assert _chosen(entries) == [[10, 49, 1, 2, 3]]
    assert _chosen(entries, min_files=3) == [[1, 2, 3]]


def test_a_folder_larger_than_the_target_is_rewritten_alone() -> None:
    """It becomes as many files as the target size requires."""
    entries = [*_entries("a", 1, 1), *_entries("b", 40, 40, 20), *_entries("c", 40, 40, 21), *_entries("d", 1, 1)]

    assert _chosen(entries) == [[40, 40, 21], [1, 1, 40, 40, 20, 1, 1]]
    numbers = [Rewrite(0, 0, chosen, _TARGET).files_per_folder for chosen in _rewrites(entries)]
    assert numbers == [2, 1]


def test_a_rewrite_has_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders beyond the limit of files or bytes are in the next rewrite, and none is left out."""
    entries = [*_entries("a", 1, 1), *_entries("b", 1, 1), *_entries("c", 45, 45), *_entries("d", 45, 45)]

    monkeypatch.setattr(rewriting, "_MAX_FILES", 4)
    assert _chosen(entries) == [[1, 1, 1, 1], [45, 45, 45, 45]]
    monkeypatch.setattr(rewriting, "_MAX_FILES", 100)
    monkeypatch.setattr(rewriting, "_MAX_BYTES", 94)
    assert _chosen(entries) == [[1, 1, 1, 1, 45, 45], [45, 45]]
