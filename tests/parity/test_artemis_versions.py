"""Matches whose meaning changed between versions of Artemis, and what an import says of them."""

import pytest

from kafka_redelivery.topology.artemis.repository import Wildcards, matches
from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.migration.conversion import read_broker_configuration
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from tests.parity.recordings import Case, cases, each

FILE = "artemis_versions.json"
NEWEST = "2.56.0"
OLDEST = "2.40.0"


def ours(case: Case) -> bool | str:
    """Return whether the match applies here: as in the newest version, but for two cases of the oldest."""
    as_before = case["delimiter"] == "$" or "\\*" in case["match"]
    answer: bool | str = case["applies"][OLDEST if as_before else NEWEST]
    return answer


@each(FILE, "cases")
def test_a_match_applies_as_in_the_newest_version(case: Case) -> None:
    """Or as in 2.40, for a delimiter ``$`` and an escaped wildcard."""
    wildcards = Wildcards(any_words=case["any_words"], single_word=case["single_word"], delimiter=case["delimiter"])
    try:
        found: bool | str = case["match"] == case["address"]
        if wildcards.used_in(case["match"]):
            found = matches(case["match"], case["address"], wildcards)
    except MatchError:
        found = "refused"
    assert found == ("refused" if isinstance(ours(case), str) else ours(case)), case


def notes(case: Case, version: str) -> str:
    """Return what the import of a file with the match says."""
    names = {"any-words": "any_words", "single-word": "single_word", "delimiter": "delimiter"}
    wildcards = "".join(f"<{name}>{case[key]}</{name}>" for name, key in names.items())
    text = f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><wildcard-addresses>{wildcards}
        </wildcard-addresses><address-settings><address-setting match="{case["match"]}"/></address-settings></core>
        </configuration>"""
    return str(read_broker_configuration(text.encode(), "broker.xml", PlaceholderValues(), version).notes)


def test_each_change_has_a_note() -> None:
    """For every version in which a match applies to another address than here, and for no other."""
    matches_of: dict[tuple[str, ...], list[Case]] = {}
    for case in cases(FILE, "cases"):
        key = (case["any_words"], case["single_word"], case["delimiter"], case["match"])
        matches_of.setdefault(key, []).append(case)
    told = 0
    for found in matches_of.values():
        for version in found[0]["applies"]:
            differs = any(case["applies"][version] != ours(case) for case in found)
            assert (f"in Artemis {version[:4]} it" in notes(found[0], version)) == differs, (found[0], version)
            told += differs
    assert told > 100


@pytest.mark.parametrize("version", ["2.44.0", "2.50.0", None])
def test_usual_characters_have_no_note(version: str | None) -> None:
    """Whatever the version is."""
    case = {"any_words": "#", "single_word": "*", "delimiter": "/", "match": "a/*"}
    assert notes(case, version or NEWEST) == "[]"
