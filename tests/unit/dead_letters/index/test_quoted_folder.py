"""A folder's name is text, also in the statements of the database."""

from pathlib import Path

from kafka_redelivery.dead_letters.index.files import VERSION, Basis, Manifest
from kafka_redelivery.dead_letters.index.store import database


def test_a_folder_with_an_apostrophe(tmp_path: Path) -> None:
    """It can be read, and nothing outside of it is allowed."""
    folder = tmp_path / "o'brien"
    folder.mkdir()
    basis = Basis(version=VERSION, cluster="c", group="billing", values=True, class_only=False)
    opened = database(folder, Manifest(basis=basis))
    try:
        assert opened.execute("SELECT count(*) FROM letters").fetchall() == [(0,)]
        (allowed,) = opened.execute("SELECT current_setting('allowed_directories')").fetchall()[0]
        assert [each.rstrip("/") for each in allowed if "brien" in each] == [str(folder)]
        assert not [each for each in allowed if not each.startswith(str(tmp_path))]
    finally:
        opened.close()
