"""Resolving address settings for one address: topics of dead letters and expired records, and warnings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.artemis.address_settings import AddressSettings, merged
from kafka_redelivery.topology.artemis.repository import SettingsRepository, hash_order
from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.java.numbers import LONG_MIN
from kafka_redelivery.topology.policy.entry import DeadLetterKind
from kafka_redelivery.topology.resolution.artemis import ArtemisResolution, resolve_artemis
from kafka_redelivery.topology.topics.naming import kafka_topic

NOW = 1_700_000_000_000


def resolve(address: str = "orders", **settings: object) -> ArtemisResolution:
    """Resolve an address with one setting for all addresses; underscores take the place of dashes."""
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
def test_topics_of_dead_letters_and_expired_records(
    settings: dict[str, Any], kind: str, topic: str, expiry: str | None
) -> None:
    """Auto-created resources give one topic per address; a plain address is one topic for all."""
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
def test_dead_letters_that_artemis_would_drop_are_kept(settings: dict[str, Any]) -> None:
    """They go to a topic of the address, with a warning."""
    found = resolve(expiry_address="E", **settings)
    assert found.entry.dead_letter_strategy.topic == "DLQ.orders"
    assert any("after their last attempt" in warning.problem for warning in found.warnings)


def test_expired_records_without_an_expiry_address_are_kept() -> None:
    """They go to the topic of the dead letters, with a warning."""
    found = resolve(dead_letter_address="D")
    assert found.entry.dead_letter_strategy.expiry_topic is None
    assert any("when they expire" in warning.problem for warning in found.warnings)


def test_a_tie_has_a_warning() -> None:
    """Two matches have the same length and end with the wildcard for any words."""
    repository = SettingsRepository()
    repository.add("*.#", {"max-delivery-attempts": 1})
    repository.add("a.#", {"max-delivery-attempts": 2})
    assert any("same rank" in warning.problem for warning in resolve_artemis(repository, "a", "a").warnings)


def test_a_queue_has_the_settings_of_its_address() -> None:
    """The queue of ``address::queue`` is ignored."""
    repository = SettingsRepository()
    repository.add("a", {"max-delivery-attempts": 3})
    assert repository.resolve("a::q").settings.max_delivery_attempts == 3


@pytest.mark.parametrize("match", ["a(.*", "a(", "a.{id}", "{"])
def test_an_invalid_match_is_refused(match: str) -> None:
    """Special characters of regular expressions keep their meaning, as in Java, also without wildcards."""
    with pytest.raises(MatchError, match="is not a pattern"):
        SettingsRepository().add(match, {})


def test_names_have_the_order_of_javas_hash_map() -> None:
    """By bucket (a, q and Q share one of 16), then in the order of insertion; 32 from the thirteenth on."""
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
    """The limit is applied after the random part."""
    delay = settings.delay_ms(number, [draw])
    assert 0 <= delay <= max(0, settings.max_redelivery_delay)
    if not settings.scheduled:
        assert delay == 0


@given(SETTINGS, st.integers(1, 200))
def test_a_multiplier_above_one_never_shortens(settings: AddressSettings, number: int) -> None:
    """The random part is excluded."""
    if settings.scheduled and settings.redelivery_delay_multiplier >= 1:
        assert settings.calculated_delay_ms(number) <= settings.calculated_delay_ms(number + 1)


@pytest.mark.parametrize("redelivery", [0, -1])
def test_redeliveries_count_from_one(redelivery: int) -> None:
    """A redelivery below 1 is refused."""
    with pytest.raises(ValueError, match="count from 1"):
        AddressSettings().delay_ms(redelivery, ())


def test_a_random_delay_needs_a_draw() -> None:
    """This package draws no random numbers."""
    with pytest.raises(ValueError, match="needs a draw"):
        AddressSettings(redelivery_delay=5, redelivery_collision_avoidance_factor=0.1).delay_ms(1, ())


def test_the_default_maximum_overflows_as_in_java() -> None:
    """Ten times the delay may not fit into 64 bits."""
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
    """Its own expiration, adjusted by the settings."""
    assert AddressSettings(**settings).expiration_ms(own, NOW) == expected


def test_a_record_without_a_timestamp_gets_no_expiration() -> None:
    """Its age is unknown."""
    assert resolve(expiry_delay=5).entry.expiration_ms(0, -1) == 0
