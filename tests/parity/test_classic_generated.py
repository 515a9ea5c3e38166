"""Generated, unusual inputs have the same results as in the real ActiveMQ Classic."""

from collections.abc import Callable
from itertools import islice, repeat

import pytest

from kafka_redelivery.topology.classic.choice import DestinationMap, choose, compare, filter_kind, matches
from kafka_redelivery.topology.classic.destination import parse_destination
from kafka_redelivery.topology.config.section import RedeliveryPolicySection
from kafka_redelivery.topology.explanation import policy_document
from kafka_redelivery.topology.migration.result import MigrationError
from tests.every import Check, every
from tests.parity.importing import Migrated
from tests.parity.recordings import Case, cases

FILE = "classic_generated.json"


def each(section: str) -> Callable[[Check], Check]:
    """Check all cases of a section."""
    return every([(case,) for case in cases(FILE, section)], ascii)


@each("filters")
def test_a_pattern_matches_the_same_names(case: Case) -> None:
    """The kind of filter, the names it matches and the ranking of two filters are the recorded ones."""
    pattern, name = parse_destination(case["pattern"]), parse_destination(case["name"])
    assert filter_kind(pattern) == case["filter"]
    assert matches(pattern, name) is case["match"]
    assert compare(pattern, name) == case["compare"]


@each("maps")
def test_the_same_entry_is_chosen(case: Case) -> None:
    """The chosen entry is a recorded winner, and stable only where the broker always chose the same."""
    patterns = [parse_destination(entry) for entry in case["entries"]]
    for lookup in case["lookups"]:
        destination = parse_destination(lookup["name"])
        choice = choose(patterns, destination)
        assert DestinationMap(patterns).candidates(destination) == lookup["candidates"]
        assert (-1 if choice.winner is None else choice.winner) in lookup["winners"]
        assert not (choice.stable and len(lookup["winners"]) > 1)


@each("delays")
def test_the_delays(case: Case) -> None:
    """Each delay equals the recorded one to the millisecond, for every policy."""
    policy = {name: float(value) if isinstance(value, str) else value for name, value in case["policy"].items()}
    section = RedeliveryPolicySection.model_validate(policy, by_alias=True, by_name=False)
    assert list(islice(section.value().delays_ms(repeat(0.0)), 12)) == case["delays_ms"]


@each("uris")
def test_a_connection_uri(case: Case) -> None:
    """The URI is refused as by the connection factory, or has the same policy."""
    if case["error"] is not None:
        with pytest.raises(MigrationError):
            Migrated(case["uri"])
        return
    default = policy_document(RedeliveryPolicySection().value())
    assert Migrated(case["uri"]).explain("any")["policy"] == default | case["not_default"]
