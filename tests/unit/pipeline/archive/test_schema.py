from pathlib import Path

import pytest

from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA, SCHEMA_VERSION

_PAGE = (Path(__file__).parents[4] / "docs" / "spark-jobs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ARCHIVE_SCHEMA.names)
def test_the_page_describes_every_column(name: str) -> None:
    """The table of columns in docs/spark-jobs.md has each column of the schema."""
    rows = [line for line in _PAGE.splitlines() if line.startswith("| `")]

    assert any(f"`{name}`" in row.split("|")[1] for row in rows)


def test_the_page_names_the_schema_version() -> None:
    """docs/spark-jobs.md names the current schema version."""
    assert f"| `schema_version` | {SCHEMA_VERSION} |" in _PAGE
