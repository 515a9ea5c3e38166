"""Files that the documentation names by their path exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_PATH = re.compile(
    r"`((?:cli|consumers|deploy|docs|examples|grafana|pipeline|serdes|src|tests|topology|transport)/[\w./-]+)`"
)
_PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


@pytest.mark.parametrize(
    "page", [page for page in _PAGES if page.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_path_exists(page: Path) -> None:
    """The changelog is left out, because it names files of earlier versions."""
    named = _PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_architecture_can_be_read_in_one_go() -> None:
    """It has at most 250 lines; reasons are in docs/decisions.md."""
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 200
