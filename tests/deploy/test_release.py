"""A release is what two builds of a commit have in common."""

import tarfile
import tomllib
from pathlib import Path

import pytest

from deploy.release import ROOT, ReleaseError, build, digests, notes, version

_CHANGELOG = """\
# Changelog

## Unreleased

## 0.10.0 - 2027-01-02

### Added
- Ten.

## 0.1.0 - 2026-12-01

- One.
"""


def test_two_builds_of_a_commit_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder nor the clock gets into them."""
    first = build("HEAD", tmp_path / "first")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = build("HEAD", tmp_path / "second")
    assert digests(first) == digests(second)
    assert [each.name.removeprefix(f"kafka_redelivery-{version()}") for each in first] == [
        "-py3-none-any.whl",
        ".tar.gz",
    ]
    with tarfile.open(first[1]) as archive:
        assert len({each.mtime for each in archive}) == 1


def test_the_notes_are_the_section_of_the_version() -> None:
    """0.1.0 is not the beginning of 0.10.0."""
    assert notes(_CHANGELOG, "0.1.0") == "- One.\n"
    assert notes(_CHANGELOG, "0.10.0") == "### Added\n- Ten.\n"


@pytest.mark.parametrize("released", ["0.2.0", "Unreleased"])
def test_a_version_without_notes_is_refused(released: str) -> None:
    """A section without text is none."""
    with pytest.raises(ReleaseError, match=f"has no section `## {released} - DATE` with text"):
        notes(_CHANGELOG, released)


def test_all_is_every_other_extra() -> None:
    """``kafka-redelivery[all]`` leaves none out."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (named,) = extras.pop("all")
    assert named == f"kafka-redelivery[{','.join(sorted(extras))}]"
