from pathlib import Path

import pytest

from pipeline.archive_schema import ARCHIVE_SCHEMA, SCHEMA_VERSION

_PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ARCHIVE_SCHEMA.names)
def test_every_column_is_explained(name: str) -> None:
    """The table of columns in docs/spark.md has each column of the schema."""
    rows = [line for line in _PAGE.splitlines() if line.startswith("| `")]

    assert any(f"`{name}`" in row.split("|")[1] for row in rows)


def test_the_version_is_told() -> None:
    """docs/spark.md names the version that is written."""
    assert f"`schema_version` is {SCHEMA_VERSION}." in _PAGE
