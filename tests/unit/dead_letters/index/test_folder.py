"""The folder of an index belongs to its user, and only what an index has written is in it."""

from pathlib import Path

import pytest

from kafka_redelivery.consumers.errors import IndexUnusableError
from kafka_redelivery.dead_letters.index import files
from kafka_redelivery.dead_letters.index.files import IndexFolder, Manifest
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import BASIS, TOPIC, published


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
    """Only files with the names of an index are deleted; those of another index at once."""
    folder = IndexFolder(tmp_path / "index")
    for name in ("letters-1.parquet", "owned-1.parquet", "thesis"):
        (folder.path / name).write_text("x", encoding="utf-8")
    folder.publish(Manifest(basis=BASIS))
    assert {each.name for each in folder.path.iterdir()} == {"thesis", "manifest"}


def test_what_is_replaced_is_deleted_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of the manifest before have time; after it the next refresh deletes what they had."""
    folder = published(tmp_path / "index", [Fetched(TOPIC, 0, 0, b"k", b"v", [], NOW)])
    (file,) = folder.path.glob("letters-*")
    for _ in range(2):
        folder.publish(Manifest(basis=BASIS))
        assert file.exists()
    monkeypatch.setattr(files, "GRACE_S", 0.0)
    folder.publish(Manifest(basis=BASIS))
    assert not file.exists()
