"""The documentation becomes a site without a warning: links, anchors, tables, languages of code, navigation."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_site_has_no_faults(tmp_path: Path) -> None:
    """All pages are read and checked. A page outside of the navigation is a fault, too."""
    command = [
        sys.executable,
        "-m",
        "docs.site",
        "--no-serve",
        "--builder",
        "dummy",
        "--folder",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
