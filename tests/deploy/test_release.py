"""A release is what two builds of a commit have in common."""

import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

from deploy import release as module
from deploy import sbom
from deploy.release import ROOT, ReleaseError, build, digests, notes, release
from deploy.sbom import version

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


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project with one commit."""
    folder = tmp_path / "checkout"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "__init__.py").write_text("")
    (folder / "CHANGELOG.md").write_text(_CHANGELOG)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "one"\nversion = "0.1.0"\n'
    )
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "One"]):
        subprocess.run(["git", *words], cwd=folder, check=True)  # noqa: S607 - as a person does it

    def bills(folder: str) -> int:
        (Path(folder) / "one.cdx.json").write_text("{}")
        return 0

    monkeypatch.setattr(module, "ROOT", folder)
    monkeypatch.setattr(sbom, "ROOT", folder)
    monkeypatch.setattr(sbom, "main", bills)  # test_sbom.py is about them
    return folder


def test_a_release_has_all_its_files(tmp_path: Path, checkout: Path) -> None:
    """With a hash of each that is published under its name."""
    del checkout
    found = release(tmp_path / "dist")
    assert sorted(found) == ["one-0.1.0-py2.py3-none-any.whl", "one-0.1.0.tar.gz"]
    assert (tmp_path / "dist" / "NOTES.md").read_text() == "- One.\n"
    done = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"],  # noqa: S607 - as a user does it
        cwd=tmp_path / "dist",
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [f"{name}: OK" for name in (*sorted(found), "one.cdx.json")]
    assert {each.name for each in (tmp_path / "dist").iterdir()} == {*found, "one.cdx.json", "NOTES.md", "SHA256SUMS"}


def test_a_folder_with_files_is_refused(tmp_path: Path, checkout: Path) -> None:
    """They would be published, too. An empty one is not."""
    del checkout
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "one-0.0.9.tar.gz").touch()
    for folder in (tmp_path / "dist", tmp_path / "dist" / "one-0.0.9.tar.gz"):
        with pytest.raises(ReleaseError, match="is not empty"):
            release(folder)
    (tmp_path / "dist" / "one-0.0.9.tar.gz").unlink()
    assert release(tmp_path / "dist")


def test_a_checkout_with_changes_is_refused(tmp_path: Path, checkout: Path) -> None:
    """The files come from the commit."""
    (checkout / "more.py").touch()
    with pytest.raises(ReleaseError, match=r"1 files of the checkout are not committed, such as more\.py"):
        release(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_builds_that_differ_are_refused(tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written then."""
    del checkout

    def build_once(_: str, target: Path) -> list[Path]:
        target.mkdir()
        (target / "one.whl").write_text(target.name)
        return [target / "one.whl"]

    monkeypatch.setattr(module, "build", build_once)
    with pytest.raises(ReleaseError, match=r"differ: one\.whl"):
        release(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


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
