"""Builds what a release publishes, twice, and refuses what the two builds do not have in common: ``./dev release``."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy import sbom

ROOT: Final = Path(__file__).parents[1]
_GIT: Final = shutil.which("git") or "git"
_CHANGELOG: Final = "CHANGELOG.md"


class ReleaseError(Exception):
    """Nothing can be released; the message says why and what to do."""


def _git(*arguments: str) -> bytes:
    return subprocess.run([_GIT, *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def notes(changelog: str, released: str) -> str:
    """Return what the changelog says about a version, without its heading.

    Raises:
        ReleaseError: it has no section of this version, or an empty one.
    """
    sections = re.split(r"^## +", changelog, flags=re.MULTILINE)[1:]
    for heading, _, text in (section.partition("\n") for section in sections):
        if re.fullmatch(rf"\[?{re.escape(released)}\]?(?: .*)?", heading.strip()) and text.strip():
            return text.strip() + "\n"
    raise ReleaseError(
        f"{_CHANGELOG} has no section `## {released} - DATE` with text: write it, and leave `## Unreleased` empty"
    )


def build(commit: str, target: Path) -> list[Path]:
    """Build source distribution and wheel of a commit, with its time as the time of all files.

    The files come from Git, not from the checkout, so that nothing that is ignored or changed there gets in.

    Args:
        commit: what Git calls it.
        target: an empty folder for the two files.

    Returns:
        the files, by name.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Debian's Python 3.11 cannot unpack with a filter yet.
        subprocess.run(["tar", "-x", "-C", folder], input=_git("archive", "--format=tar", commit), check=True)  # noqa: S607
        epoch = _git("log", "-1", "--format=%ct", commit).decode().strip()
        # In this order: the wheel is built from the unpacked files, as pip does it of a source distribution.
        command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--target", "wheel", "--directory"]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "random"}
        subprocess.run([*command, str(target)], cwd=folder, check=True, capture_output=True, env=environment)
    return sorted(target.iterdir())


def digests(files: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by name."""
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def release(target: Path) -> dict[str, str]:
    """Build a release of the commit twice, and put it into a folder with its bills of materials, hashes and notes.

    Returns:
        the SHA-256 of source distribution and wheel by name.

    Raises:
        ReleaseError: the folder has files, the checkout has changes, the changelog lacks the version, or the two
            builds differ.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ReleaseError(f"{target} is not empty, and all of it would be published: empty it, or name another")
    if changed := _git("status", "--porcelain").decode().splitlines():
        raise ReleaseError(
            f"{len(changed)} files of the checkout are not committed, such as {changed[0][3:]}: commit them"
        )
    text = notes((ROOT / _CHANGELOG).read_text(encoding="utf-8"), sbom.version())
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        built = build("HEAD", first)
        found, again = digests(built), digests(build("HEAD", second))
        if found != again:
            names = [name for name in sorted({*found, *again}) if found.get(name) != again.get(name)]
            raise ReleaseError(f"two builds of the same commit differ: {', '.join(names)}")
        target.mkdir(parents=True, exist_ok=True)
        for each in built:
            shutil.copy(each, target)
    sbom.main(str(target))
    (target / "NOTES.md").write_text(text, encoding="utf-8")
    hashed = {**found, **digests(sorted(target.glob("*.cdx.json")))}
    (target / "SHA256SUMS").write_text(
        "".join(f"{value}  {name}\n" for name, value in hashed.items()), encoding="utf-8"
    )
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code is 1 if nothing can be released."""
    parser = argparse.ArgumentParser(prog="./dev release", description=__doc__)
    parser.add_argument("folder", nargs="?", default="dist", type=Path, help="where the files go (default: dist)")
    folder: Path = parser.parse_args(arguments).folder
    try:
        for name, value in release(folder).items():
            print(f"{value}  {folder / name}")  # noqa: T201
    except ReleaseError as error:
        print(f"./dev release: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(f"Both builds are equal. docs/releasing.md says how to sign and publish what is in {folder}.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
