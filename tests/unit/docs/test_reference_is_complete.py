from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from topology import settings
from topology.metric_catalogue import CATALOGUE, Kind

DOCS = Path(__file__).parents[3] / "docs"
SECTIONS = [each for each in settings.Section.__subclasses__() if each is not settings.CodecSection]
SECTIONS += settings.CodecSection.__subclasses__()


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_is_in_the_reference(section: type[settings.Section]) -> None:
    """docs/configuration.md has a row with a meaning for each setting there is."""
    rows = (DOCS / "configuration.md").read_text().splitlines()
    for name in section.model_fields:
        found = [row for row in rows if row.startswith(f"| `{to_camel(name)}` |")]
        assert found, f"{section.__name__}.{name} is not in docs/configuration.md"
        assert all(len(row.split("|")[3].strip()) > 2 for row in found)


def test_every_metric_is_in_the_reference() -> None:
    """docs/metrics.md has the row of each metric in the catalogue, and no other."""
    rows = [row for row in (DOCS / "metrics.md").read_text().splitlines() if row.startswith("| `redelivery_")]
    expected = [
        f"| `{metric.name}{'_total' if metric.kind is Kind.COUNTER else ''}` | {metric.kind} | "
        f"{', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |"
        for metric in CATALOGUE
    ]
    assert rows == expected
