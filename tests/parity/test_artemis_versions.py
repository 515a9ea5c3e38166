"""Matches whose meaning changed between versions of Artemis, and what an import says of them."""

import pytest

from kafka_redelivery.topology.artemis.repository import Wildcards, matches
from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.migration.conversion import read_broker_configuration
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from tests.parity.recordings import Case, cases, each

FILE = "artemis_versions.json"
NEWEST = "2.56.0"
AS_BEFORE = {("$", "orders$*"), (".", "orders.\\*")}
"""Delimiters and matches that are as in 2.40 here; docs/migration.md has them."""


@each(FILE, "cases")
def test_a_match_applies_as_in_the_newest_version(case: Case) -> None:
    """Or as in 2.40, where the documentation says so."""
    wildcards = Wildcards(any_words=case["any_words"], single_word=case["single_word"], delimiter=case["delimiter"])
    version = "2.40.0" if (case["delimiter"], case["match"]) in AS_BEFORE else NEWEST
    try:
        found: bool | str = matches(case["match"], case["address"], wildcards)
    except MatchError:
        found = "PatternSyntaxException"
    assert found == case["applies"][version], case


def notes(case: Case, version: str) -> str:
    """Return what the import of a file with the match says."""
    names = {"any-words": "any_words", "single-word": "single_word", "delimiter": "delimiter"}
    wildcards = "".join(f"<{name}>{case[key]}</{name}>" for name, key in names.items())
    text = f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><wildcard-addresses>{wildcards}
        </wildcard-addresses><address-settings><address-setting match="{case["match"]}"/></address-settings></core>
        </configuration>"""
    return str(read_broker_configuration(text.encode(), "broker.xml", PlaceholderValues(), version).notes)


def test_each_change_has_a_note() -> None:
    """For every version that answers in another way than we do, and for no other."""
    told = 0
    for case in cases(FILE, "cases"):
        ours = NEWEST if (case["delimiter"], case["match"]) not in AS_BEFORE else "2.40.0"
        for version, answer in case["applies"].items():
            if answer != case["applies"][ours]:
                assert any(word in notes(case, version) for word in ("here", "does not start")), (case, version)
                told += 1
    assert told > 20


@pytest.mark.parametrize("version", ["2.44.0", "2.50.0", None])
def test_usual_characters_have_no_note(version: str | None) -> None:
    """Whatever the version is."""
    case = {"any_words": "#", "single_word": "*", "delimiter": "/", "match": "a/*"}
    assert notes(case, version or NEWEST) == "[]"
