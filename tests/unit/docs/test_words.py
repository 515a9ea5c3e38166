"""Code and documentation use one word for one thing: the standard one."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[3]

REPLACED: Final = {
    r"mend(?:s|ed|ing)?": "fix",
    r"bur(?:y|ies|ied)": "dead-letter",
    r"undone write": "aborted write",
    r"nobody|somebody|whoever": "name the process, thread or person",
    r"of late": "recently",
}
"""Words that are not used, and what to write."""

LIMIT: Final = 32_000
"""Most words of the handwritten pages. Fenced code is not counted."""

_FENCED: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)

_FOLDERS: Final = ("deploy", "docs", "examples", "grafana", "src")
_ENDINGS: Final = {".py", ".md", ".yaml", ".yml", ".html", ".j2", ".json"}


def _files() -> list[Path]:
    found = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in _ENDINGS]
    return sorted({path for path in [*found, *ROOT.glob("*.md")] if path.name != "CHANGELOG.md"})


@pytest.mark.parametrize("pattern", REPLACED)
def test_a_replaced_word_stays_replaced(pattern: str) -> None:
    """In everything that a user or developer reads, except the history in the changelog."""
    word = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    lines = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if word.search(line)
    ]
    assert lines == [], f"write: {REPLACED[pattern]}"


def test_the_documentation_stays_short() -> None:
    """A new paragraph replaces another one.

    Fenced code is not counted, so no example gets shorter for this test. What the code says is in docs/reference, which
    is not counted either.
    """
    pages = [path for path in ROOT.glob("docs/**/*.md") if path.parent.name != "reference"]
    words = sum(len(_FENCED.sub("", path.read_text(encoding="utf-8")).split()) for path in pages)
    assert words <= LIMIT, "shorten a page, or say it in the code"
