import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.section import KebabSection, RedeliveryPolicySection, Section
from kafka_redelivery.topology.config.settings import CodecSection
from kafka_redelivery.topology.metric_catalogue import CATALOGUE, MetricKind

DOCS = Path(__file__).parents[3] / "docs"
ELSEWHERE = (CodecSection, KebabSection)
"""Sections that the file does not have under their own names, or at all."""


def sections(base: type[Section]) -> set[type[Section]]:
    """All sections of the configuration file."""
    found = {part for each in base.__subclasses__() for part in sections(each)} | set(base.__subclasses__())
    return found - set(ELSEWHERE)


SECTIONS = sorted(sections(Section), key=lambda section: section.__name__)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_is_in_the_reference(section: type[Section]) -> None:
    """docs/configuration.md has a row with a meaning for each setting."""
    rows = (DOCS / "configuration.md").read_text().splitlines()
    for field in section.model_fields.values():
        found = [row for row in rows if row.startswith(f"| `{field.alias}` |")]
        assert found, f"{section.__name__}.{field.alias} is not in docs/configuration.md"
        assert all(len(row.split("|")[3].strip()) > 2 for row in found)


def test_every_field_of_a_policy_in_python_is_in_the_reference() -> None:
    """Each is a setting of the file with underscores, and has the same default."""
    text = (DOCS / "configuration.md").read_text()
    listed = text.partition("In Python `RedeliveryPolicy` has")[2].partition(". ")[0]
    names = [each.name for each in fields(RedeliveryPolicy)]

    assert re.findall(r"`(\w+)`", listed) == names
    assert set(names) < RedeliveryPolicySection.model_fields.keys()
    assert RedeliveryPolicySection().value() == RedeliveryPolicy()


def test_every_metric_is_in_the_reference() -> None:
    """docs/metrics.md has the row of each metric in the catalogue, and no other metric."""
    rows = [row for row in (DOCS / "metrics.md").read_text().splitlines() if row.startswith("| `redelivery_")]
    expected = [
        f"| `{metric.name}{'_total' if metric.kind is MetricKind.COUNTER else ''}` | {metric.kind} | "
        f"{', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |"
        for metric in CATALOGUE
    ]
    assert rows == expected


def commands(group: object, name: str) -> Iterator[str]:
    """Yield the full names of all commands."""
    for own, command in group.commands.items():  # type: ignore[attr-defined]
        yield from commands(command, f"{name} {own}") if hasattr(command, "commands") else [f"{name} {own}"]


def test_every_command_is_in_the_reference() -> None:
    """docs/commands.md has a row for each command, and no other row."""
    rows = [row for row in (DOCS / "commands.md").read_text().splitlines() if row.startswith("| `redelivery ")]
    assert sorted(row.split("`")[1] for row in rows) == sorted(commands(typer.main.get_command(app), "redelivery"))
