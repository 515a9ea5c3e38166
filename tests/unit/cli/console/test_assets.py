"""The files that others wrote are those of their packages, byte for byte, with their licences."""

import hashlib

from kafka_redelivery.cli.console.rendering import FOLDER, MANIFEST, Assets, manifest

_OURS = {"console.css", "console.js", "licences.txt", "mark.svg", "pages.css", "theme.js", MANIFEST}


def test_the_hashes_of_the_manifest() -> None:
    """Each file has the SHA-256 that was noted when it was taken from its package."""
    for each in manifest():
        assert hashlib.sha256((FOLDER / each["file"]).read_bytes()).hexdigest() == each["sha256"], each["file"]


def test_every_file_is_ours_or_in_the_manifest() -> None:
    """With package, version and licence, whose text is beside it."""
    assert {each.name for each in FOLDER.iterdir()} == _OURS | {each["file"] for each in manifest()}
    texts = (FOLDER / "licences.txt").read_text(encoding="utf-8")
    for each in manifest():
        assert f"{each['package']} {each['version']}\n" in texts
        assert each["licence"] in {"0BSD", "MIT"}


def test_no_file_names_another_host_to_load_from() -> None:
    """Styles load nothing, and scripts of ours have no address."""
    for name in ("console.css", "pages.css", "console.js", "theme.js"):
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert "http:" not in text
        assert "https:" not in text
        assert "url(" not in text
    assert Assets()["console.css"].integrity.startswith("sha256-")
