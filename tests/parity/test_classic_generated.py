"""Inputs that nobody would write are answered as by the real ActiveMQ Classic, too."""

from itertools import islice, repeat

import pytest

from tests.parity.importing import Migrated
from tests.parity.recordings import Case, cases
from topology.backoff import delays
from topology.classic.choice import choose, compare
from topology.classic.destination import parse_destination
from topology.classic.destination_map import DestinationMap
from topology.classic.filters import filter_kind, matches
from topology.explanation import policy_document
from topology.migration.result import MigrationError
from topology.policy_settings import RedeliveryPolicySection

FILE = "classic_generated.json"


def each(section: str) -> pytest.MarkDecorator:
    """Runs a test once for each case of a section."""
    return pytest.mark.parametrize("case", cases(FILE, section), ids=lambda case: ascii(case)[:80])


@each("filters")
def test_a_pattern_means_the_same_names(case: Case) -> None:
    """The kind of filter, what it matches, and the rank of the two."""
    pattern, name = parse_destination(case["pattern"]), parse_destination(case["name"])
    assert filter_kind(pattern) == case["filter"]
    assert matches(pattern, name) is case["match"]
    assert compare(pattern, name) == case["compare"]


@each("maps")
def test_the_same_entry_decides(case: Case) -> None:
    """One of those that won there; where it always was the same, we say so, and only there."""
    patterns = [parse_destination(entry) for entry in case["entries"]]
    for lookup in case["lookups"]:
        destination = parse_destination(lookup["name"])
        choice = choose(patterns, destination)
        assert DestinationMap(patterns).candidates(destination) == lookup["candidates"]
        assert (-1 if choice.winner is None else choice.winner) in lookup["winners"]
        assert not (choice.stable and len(lookup["winners"]) > 1)


@each("delays")
def test_the_delays(case: Case) -> None:
    """Each to the millisecond, whatever the policy."""
    policy = {name: float(value) if isinstance(value, str) else value for name, value in case["policy"].items()}
    section = RedeliveryPolicySection.model_validate(policy, by_alias=True, by_name=False)
    assert list(islice(delays(section.value(), repeat(0.0)), 12)) == case["delays_ms"]


@each("uris")
def test_a_connection_uri(case: Case) -> None:
    """Refused as by the connection factory, or the same policy."""
    if case["error"] is not None:
        with pytest.raises(MigrationError):
            Migrated(case["uri"])
        return
    default = policy_document(RedeliveryPolicySection().value())
    assert Migrated(case["uri"]).explain("any")["policy"] == default | case["not_default"]
