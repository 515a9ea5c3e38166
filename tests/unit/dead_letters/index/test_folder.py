"""The folder of an index belongs to its user, and only what an index has written is in it."""

from pathlib import Path

import pytest

from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.index.folder import IndexFolder


def test_a_link_is_refused(tmp_path: Path) -> None:
    """Someone who may write beside it could let it point to any folder, whose files would be deleted."""
    victim = tmp_path / "documents"
    victim.mkdir()
    (victim / "thesis").write_text("years", encoding="utf-8")
    before = victim.stat().st_mode
    (tmp_path / "index").symlink_to(victim)
    with pytest.raises(IndexUnusableError, match="it is a link, or belongs to another user"):
        IndexFolder(tmp_path / "index")
    assert (victim / "thesis").exists()
    assert victim.stat().st_mode == before


def test_files_of_others_stay(tmp_path: Path) -> None:
    """Only files with the names of an index are deleted."""
    folder = IndexFolder(tmp_path / "index")
    for name in ("letters-1.parquet", "owned-1.parquet", "catalogue.new", "thesis"):
        (folder.path / name).write_text("x", encoding="utf-8")
    folder.remove_others(None)
    assert [each.name for each in folder.path.iterdir() if each.suffix != ".lock"] == ["thesis"]
