"""The table of tests that every run leaves out."""

from pathlib import Path

from tests.rare import RARE

ROOT = Path(__file__).parents[2]


def test_each_test_of_the_table_exists() -> None:
    """Otherwise a run of all tests ends while it collects them, and the quick tests say nothing of it."""
    text = {path: (ROOT / path).read_text(encoding="utf-8") for path in RARE}
    assert [(path, name) for path, kept in RARE.items() for name in kept if f"def {name}(" not in text[path]] == []
