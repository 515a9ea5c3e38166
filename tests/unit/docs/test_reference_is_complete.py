"""The reference is what the code says, and the code says something of everything."""

import re
from dataclasses import fields

import pytest

from docs.site.reference import documents, outdated
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.section import RedeliveryPolicySection, Section
from kafka_redelivery.topology.config.settings import CodecSection, HandlerSection
from kafka_redelivery.topology.wire.headers import CONTRACT, EXPIRATION, LAST_ATTEMPT, OURS


def sections(base: type[Section]) -> set[type[Section]]:
    """All sections of the configuration file."""
    found = {part for each in base.__subclasses__() for part in sections(each)} | set(base.__subclasses__())
    return found - {CodecSection, HandlerSection}


def test_the_pages_are_those_of_the_code() -> None:
    """After a change of a setting, a command, a metric or the like, `./dev docs --write` writes them."""
    assert outdated() == [], "run ./dev docs --write"


@pytest.mark.parametrize("section", sorted(sections(Section), key=str))
def test_each_setting_has_a_meaning(section: type[Section]) -> None:
    """Also editors show it."""
    assert [name for name, field in section.model_fields.items() if len(field.description or "") < 8] == []


def test_each_command_and_option_has_help() -> None:
    """No cell of the reference is empty that says what something means, and a text follows each command."""
    text = next(text for path, text in documents().items() if path.name == "commands.md")
    assert [line for line in text.splitlines() if line.endswith("|  |")] == []
    commands = re.findall(r"^## (redelivery .*)\n\n(.*)", text, re.MULTILINE)
    assert len(commands) == text.count("\n## redelivery ") > 0
    assert [name for name, about in commands if not re.match(r"\w", about) or about.startswith("Also: ")] == []


def test_each_header_is_explained() -> None:
    """Those of ours, and the two that users and processes with traces set."""
    assert {each.name for each in CONTRACT} == OURS | {EXPIRATION, LAST_ATTEMPT}


def test_every_field_of_a_policy_in_python_is_a_setting() -> None:
    """With underscores, and the same default."""
    assert {each.name for each in fields(RedeliveryPolicy)} < RedeliveryPolicySection.model_fields.keys()
    assert RedeliveryPolicySection().value() == RedeliveryPolicy()
