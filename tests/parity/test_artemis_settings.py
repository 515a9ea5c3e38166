"""Address settings apply, merge and delay redeliveries as in the real Artemis."""

import pytest

from kafka_redelivery.topology.artemis.address_settings import SETTING_NAMES, AddressSettings, merged
from kafka_redelivery.topology.artemis.repository import DEFAULT_WILDCARDS, SettingsRepository, Wildcards, compare
from kafka_redelivery.topology.errors import MatchError
from tests.parity.recordings import Case, each, recording

WILDCARDS = "artemis_wildcards.json"
DELAYS = "artemis_delays.json"


def wildcards(case: Case) -> Wildcards:
    """Return the wildcard characters of a case."""
    given = case.get("wildcard_config")
    if given is None:
        return DEFAULT_WILDCARDS
    return Wildcards(delimiter=given["delimiter"], any_words=given["any-words"], single_word=given["single-word"])


def by_name(settings: AddressSettings) -> Case:
    """Return the settings by their names in ``broker.xml``."""
    return {name: getattr(settings, field) for name, field in SETTING_NAMES.items()}


@each(WILDCARDS, "pattern_match")
def test_a_match_applies_to_the_same_addresses(case: Case) -> None:
    """A match applies to the recorded addresses, or is refused as in the recording."""
    repository = SettingsRepository(wildcards(case))
    if "error" in case:
        with pytest.raises(MatchError):
            repository.add(case["pattern"], {})
        return
    repository.add(case["pattern"], {})
    assert bool(repository.resolve(case["address"]).matches) is case["match"]


@each(WILDCARDS, "wildcard_order")
def test_two_matches_are_ranked_alike(case: Case) -> None:
    """The comparison has the recorded sign in both directions."""
    assert compare(case["a"], case["b"]) == case["sign"]
    assert compare(case["b"], case["a"]) == case["sign_swapped"]


@each(WILDCARDS, "merge")
def test_settings_are_merged_field_by_field(case: Case) -> None:
    """Matches apply in the recorded order and result in the recorded settings."""
    repository = SettingsRepository(wildcards(case), case.get("literal_match_markers"))
    refused = []
    for entry in case["entries"]:
        try:
            repository.add(entry["match"], entry["settings"])
        except MatchError:
            refused.append(entry["match"])
    assert refused == [text.partition(" -> ")[0] for text in case.get("rejected_entries", [])]
    defaults = recording(WILDCARDS)["meta"]["defaults"]
    for lookup in case["lookups"]:
        found = repository.resolve(lookup["address"])
        assert list(found.matches) == lookup["matched_most_specific_first"]
        assert found.tie is lookup.get("order_tie", False)
        assert by_name(found.settings) == {**defaults, **lookup["not_default"]}


@each(DELAYS, "cases")
def test_the_delays(case: Case) -> None:
    """Each delay equals the recorded one to the millisecond; unscheduled redeliveries are the recorded ones."""
    settings = merged([case["settings"]])
    assert {name: by_name(settings)[name] for name in case["effective"]} == case["effective"]
    assert settings.scheduled is case["scheduled"]
    assert [settings.calculated_delay_ms(attempt) for attempt in range(1, 13)] == case["delays_ms"]


@each(DELAYS, "delivery_count_edges")
def test_unusual_delivery_counts(case: Case) -> None:
    """Delivery counts below 1 and very large ones have the recorded delay."""
    assert merged([case["settings"]]).calculated_delay_ms(case["delivery_count"]) == case["delay_ms"]


@each(DELAYS, "collision_avoidance")
def test_the_random_part(case: Case) -> None:
    """The recorded delays lie within our bounds, which are at most 1 % wider; the maximum applies last."""
    settings = merged([case["settings"]])
    attempt = case["delivery_count"]
    assert settings.max_redelivery_delay == case["effective_max_ms"]
    assert settings.calculated_delay_ms(attempt) == case["delay_without_avoidance_ms"]
    least, most = settings.delay_range_ms(attempt)
    slack = 1 + (case["max_ms"] - case["min_ms"]) / 100
    assert case["min_ms"] - slack <= least <= case["min_ms"]
    assert case["max_ms"] <= most <= case["max_ms"] + slack
