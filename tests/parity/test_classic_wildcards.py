"""Every pattern matches the same names as in the real ActiveMQ Classic, and the same entry of a map is chosen."""

import pytest

from kafka_redelivery.topology.classic.choice import Choice, DestinationMap, choose, compare, filter_kind, matches
from kafka_redelivery.topology.classic.destination import Destination, parse_destination
from kafka_redelivery.topology.errors import DestinationError
from tests.parity.recordings import Case, each

FILE = "classic_wildcards.json"


@each(FILE, "filter_match")
def test_a_pattern_matches_the_same_names(case: Case) -> None:
    """The filter has the recorded class and matches the recorded names."""
    pattern = parse_destination(case["pattern"])
    assert filter_kind(pattern) == case["filter"]
    assert matches(pattern, parse_destination(case["name"])) is case["match"]


@each(FILE, "parse")
def test_a_name_is_parsed_alike(case: Case) -> None:
    """Words, parts and options are the recorded ones; names refused by the broker are refused here."""
    if "error" in case:
        with pytest.raises(DestinationError):
            parse_destination(case["input"])
        return
    found = parse_destination(case["input"])
    assert {
        "physical_name": found.name,
        "is_pattern": found.pattern,
        "is_composite": found.composite,
        "paths": None if found.composite else found.paths,
        "parts_sorted": [str(part) for part in found.parts] or None,
        "options": dict(found.options) or None,
    } == {name: value for name, value in case.items() if name not in {"id", "input", "qualified_name"}}


@each(FILE, "compare")
def test_two_names_are_ranked_alike(case: Case) -> None:
    """The comparison has the recorded sign, even where it is not antisymmetric."""
    one, other = parse_destination(case["a"]), parse_destination(case["b"])
    assert compare(one, other) == case["sign"]
    assert compare(other, one) == case.get("sign_swapped", compare(other, one))


def assert_recorded(choice: Choice, lookup: Case) -> None:
    """Assert that the choice is a recorded winner, and stable exactly where the broker's winner is."""
    if lookup["winner"] == "unstable":
        assert not choice.stable
        assert choice.winner in lookup["possible_winners"]
    else:
        assert choice.stable
        assert choice.winner == lookup["winner"]


def lookups(patterns: list[Destination], case: Case) -> list[tuple[Destination, Case]]:
    """Return each name that was looked up; assert the recorded candidates on the way."""
    found = [(parse_destination(lookup["name"]), lookup) for lookup in case["lookups"]]
    for destination, lookup in found:
        assert DestinationMap(patterns).candidates(destination) == lookup["candidates"]
    return found


@each(FILE, "map_choose")
def test_the_same_entry_is_chosen(case: Case) -> None:
    """Of entries from a configuration file the recorded one is chosen wherever the broker's choice is deterministic."""
    patterns = [parse_destination(entry) for entry in case["entries"]]
    for destination, lookup in lookups(patterns, case):
        assert_recorded(choose(patterns, destination), lookup)


@each(FILE, "map_put_choose")
def test_the_same_entries_match_among_policies_put_by_a_client(case: Case) -> None:
    """For policies that a client puts, the broker's choice is deterministic only if a single one matches."""
    for _, lookup in lookups([parse_destination(entry) for entry in case["put"]], case):
        candidates = lookup["candidates"]
        assert lookup["winner"] == ("unstable" if len(candidates) > 1 else next(iter(candidates), None))
