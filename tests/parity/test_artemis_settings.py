"""Address settings apply, are merged and delay redeliveries as in the real Artemis."""

import pytest

from tests.parity.recordings import Case, each, recording
from topology.artemis.address_settings import SETTING_NAMES, AddressSettings, merged
from topology.artemis.delays import calculated_delay
from topology.artemis.match import DEFAULT_WILDCARDS, Wildcards
from topology.artemis.ranking import compare
from topology.artemis.repository import SettingsRepository
from topology.errors import MatchError
from topology.redelivery import delay_range

WILDCARDS = "artemis_wildcards.json"
DELAYS = "artemis_delays.json"


def wildcards(case: Case) -> Wildcards:
    """The characters of a case."""
    given = case.get("wildcard_config")
    if given is None:
        return DEFAULT_WILDCARDS
    return Wildcards(delimiter=given["delimiter"], any_words=given["any-words"], single_word=given["single-word"])


def by_name(settings: AddressSettings) -> Case:
    """Settings by the names of ``broker.xml``."""
    return {name: getattr(settings, field) for name, field in SETTING_NAMES.items()}


@each(WILDCARDS, "pattern_match")
def test_a_match_means_the_same_addresses(case: Case) -> None:
    """A setting applies to what it applied to, or is refused as it was."""
    repository = SettingsRepository(wildcards(case))
    if "error" in case:
        with pytest.raises(MatchError):
            repository.add(case["pattern"], {})
        return
    repository.add(case["pattern"], {})
    assert bool(repository.resolve(case["address"]).matches) is case["match"]


@each(WILDCARDS, "wildcard_order")
def test_two_matches_are_ranked_alike(case: Case) -> None:
    """The comparison gives the recorded sign in both directions."""
    assert compare(case["a"], case["b"]) == case["sign"]
    assert compare(case["b"], case["a"]) == case["sign_swapped"]


@each(WILDCARDS, "merge")
def test_settings_are_merged_field_by_field(case: Case) -> None:
    """Matches apply in the recorded order and give the recorded settings."""
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
    """Each delay is the recorded one, millisecond for millisecond, and what is not scheduled is known."""
    settings = merged([case["settings"]])
    assert {name: by_name(settings)[name] for name in case["effective"]} == case["effective"]
    assert settings.scheduled is case["scheduled"]
    assert [calculated_delay(settings, attempt) for attempt in range(1, 13)] == case["delays_ms"]


@each(DELAYS, "delivery_count_edges")
def test_unusual_delivery_counts(case: Case) -> None:
    """Counts below 1 and beyond all measure give the recorded delay."""
    assert calculated_delay(merged([case["settings"]]), case["delivery_count"]) == case["delay_ms"]


@each(DELAYS, "collision_avoidance")
def test_the_random_part(case: Case) -> None:
    """What was seen lies within our bounds, which are no more than a hundredth wider; the cap comes last."""
    settings = merged([case["settings"]])
    attempt = case["delivery_count"]
    assert settings.max_redelivery_delay == case["effective_max_ms"]
    assert calculated_delay(settings, attempt) == case["delay_without_avoidance_ms"]
    least, most = delay_range(settings, attempt)
    slack = 1 + (case["max_ms"] - case["min_ms"]) / 100
    assert case["min_ms"] - slack <= least <= case["min_ms"]
    assert case["max_ms"] <= most <= case["max_ms"] + slack
