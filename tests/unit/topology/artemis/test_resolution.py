"""What address settings mean for one address: where dead letters and expired records go, and what is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.artemis.address_settings import AddressSettings, merged
from topology.artemis.delays import calculated_delay, redelivery_delay
from topology.artemis.ranking import hash_order
from topology.artemis.repository import SettingsRepository
from topology.artemis.resolution import ArtemisResolution, resolve_artemis
from topology.errors import MatchError
from topology.java_numbers import LONG_MIN
from topology.kafka_names import kafka_topic
from topology.policy import DeadLetterKind

NOW = 1_700_000_000_000


def resolve(address: str = "orders", **settings: object) -> ArtemisResolution:
    """An address under one setting for all; underscores stand for dashes."""
    repository = SettingsRepository()
    repository.add("#", {name.replace("_", "-"): value for name, value in settings.items()})
    return resolve_artemis(repository, address, kafka_topic(address))


@pytest.mark.parametrize(
    ("settings", "kind", "topic", "expiry"),
    [
        ({"dead_letter_address": "DLQ", "expiry_address": "EXP"}, "shared", "DLQ", "EXP"),
        ({"dead_letter_address": "DLA", "auto_create_dead_letter_resources": True}, "individual", "DLQ.orders", None),
        (
            {
                "dead_letter_address": "DLA",
                "auto_create_dead_letter_resources": True,
                "dead_letter_queue_prefix": "",
                "dead_letter_queue_suffix": ".DLQ",
            },
            "individual",
            "orders.DLQ",
            None,
        ),
        (
            {"dead_letter_address": "D", "expiry_address": "E", "auto_create_expiry_resources": True},
            "shared",
            "D",
            "EXP.orders",
        ),
        ({"dead_letter_address": "D", "expiry_address": "D"}, "shared", "D", None),
        ({"auto_create_dead_letter_resources": True}, "individual", "DLQ.orders", None),
    ],
)
def test_where_they_go(settings: dict[str, Any], kind: str, topic: str, expiry: str | None) -> None:
    """Created resources are a topic for each address, an address is one for all."""
    strategy = resolve(**settings).entry.dead_letter_strategy
    assert (strategy.kind, strategy.topic, strategy.expiry_topic) == (DeadLetterKind(kind), topic, expiry)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dead_letter_address": ""},
        {"dead_letter_address": "orders"},
        {"dead_letter_address": "D", "auto_create_dead_letter_resources": True, "dead_letter_queue_prefix": ""},
    ],
)
def test_what_artemis_would_drop_is_kept_and_told(settings: dict[str, Any]) -> None:
    """In a topic of its own."""
    found = resolve(expiry_address="E", **settings)
    assert found.entry.dead_letter_strategy.topic == "DLQ.orders"
    assert any("after their last attempt" in warning.problem for warning in found.warnings)


def test_an_expired_record_without_an_expiry_address_is_kept_and_told() -> None:
    """Where the dead letters are."""
    found = resolve(dead_letter_address="D")
    assert found.entry.dead_letter_strategy.expiry_topic is None
    assert any("when they expire" in warning.problem for warning in found.warnings)


def test_a_tie_is_told() -> None:
    """Two matches of the same length with any words at their end."""
    repository = SettingsRepository()
    repository.add("*.#", {"max-delivery-attempts": 1})
    repository.add("a.#", {"max-delivery-attempts": 2})
    assert any("same rank" in warning.problem for warning in resolve_artemis(repository, "a", "a").warnings)


def test_a_queues_settings_are_those_of_its_address() -> None:
    """``address::queue`` is the address."""
    repository = SettingsRepository()
    repository.add("a", {"max-delivery-attempts": 3})
    assert repository.resolve("a::q").settings.max_delivery_attempts == 3


@pytest.mark.parametrize("match", ["a(.*", "a(", "a.{id}", "{"])
def test_a_match_that_is_no_pattern_is_refused(match: str) -> None:
    """Special characters keep their meaning, as they have it in Java, also where nothing is a wildcard."""
    with pytest.raises(MatchError, match="no pattern"):
        SettingsRepository().add(match, {})


def test_names_come_back_as_from_javas_hash_map() -> None:
    """By bucket (a, q and Q share one of 16), then as they were added; of 32 from the thirteenth name on."""
    assert hash_order(["b", "a", "q", "Q"]) == ["a", "q", "Q", "b"]
    letters = [chr(ord("a") + number) for number in range(13)]
    assert hash_order(reversed(letters)) == letters


SETTINGS = st.builds(
    AddressSettings,
    redelivery_delay=st.integers(-10, 10**6),
    redelivery_delay_multiplier=st.floats(0, 10),
    redelivery_collision_avoidance_factor=st.floats(0, 1),
    max_redelivery_delay=st.integers(-10, 10**7),
    max_delivery_attempts=st.integers(-3, 20),
)


@given(SETTINGS, st.integers(1, 10_000), st.floats(-1, 1))
def test_no_delay_is_longer_than_the_maximum_or_negative(settings: AddressSettings, number: int, draw: float) -> None:
    """The cap comes after the random part."""
    delay = redelivery_delay(settings, number, [draw])
    assert 0 <= delay <= max(0, settings.max_redelivery_delay)
    if not settings.scheduled:
        assert delay == 0


@given(SETTINGS, st.integers(1, 200))
def test_a_multiplier_above_one_never_shortens(settings: AddressSettings, number: int) -> None:
    """Without the random part."""
    if settings.scheduled and settings.redelivery_delay_multiplier >= 1:
        assert calculated_delay(settings, number) <= calculated_delay(settings, number + 1)


@pytest.mark.parametrize("redelivery", [0, -1])
def test_redeliveries_count_from_one(redelivery: int) -> None:
    """There is none before the first."""
    with pytest.raises(ValueError, match="count from 1"):
        redelivery_delay(AddressSettings(), redelivery, ())


def test_a_random_delay_needs_a_draw() -> None:
    """It is never drawn here."""
    with pytest.raises(ValueError, match="needs a draw"):
        redelivery_delay(AddressSettings(redelivery_delay=5, redelivery_collision_avoidance_factor=0.1), 1, ())


def test_the_default_maximum_goes_round_as_in_java() -> None:
    """Ten times as much may not fit into 64 bits."""
    assert merged([{"redelivery-delay": 2**62}]).max_redelivery_delay == LONG_MIN


@pytest.mark.parametrize(
    ("settings", "own", "expected"),
    [
        ({}, 0, 0),
        ({}, NOW + 5, NOW + 5),
        ({"expiry_delay": 0}, 0, NOW),
        ({"expiry_delay": 7}, NOW + 1, NOW + 1),
        ({"min_expiry_delay": 10}, 0, NOW + 10),
        ({"min_expiry_delay": 10}, NOW + 5, NOW + 10),
        ({"min_expiry_delay": 10, "max_expiry_delay": 20}, 0, NOW + 20),
        ({"min_expiry_delay": 10, "max_expiry_delay": 20}, NOW + 15, NOW + 15),
        ({"max_expiry_delay": 20}, NOW + 30, NOW + 20),
        ({"no_expiry": True, "expiry_delay": 5}, NOW + 30, 0),
    ],
)
def test_when_a_record_expires(settings: dict[str, Any], own: int, expected: int) -> None:
    """Its own word, or what the settings make of it."""
    assert AddressSettings(**settings).expiration_ms(own, NOW) == expected


def test_a_record_without_a_timestamp_gets_no_expiration() -> None:
    """Nobody knows how old it is."""
    assert resolve(expiry_delay=5).entry.expiration_ms(0, -1) == 0
