"""The policy entry of a destination, and its defaults."""

from dataclasses import FrozenInstanceError

import pytest

from kafka_redelivery.topology.artemis.address_settings import AddressSettings
from kafka_redelivery.topology.classic.policy import BackOffAlgorithm, RedeliveryPolicy
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry


def test_the_defaults_are_classics() -> None:
    """A policy without settings equals that of a Classic client."""
    assert RedeliveryPolicy() == RedeliveryPolicy(
        maximum_redeliveries=6,
        initial_redelivery_delay=1000,
        redelivery_delay=1000,
        use_exponential_back_off=False,
        back_off_multiplier=5.0,
        maximum_redelivery_delay=-1,
        use_collision_avoidance=False,
        collision_avoidance_factor=0.15,
        algorithm=BackOffAlgorithm.CURRENT,
    )


def test_by_default_dead_letters_are_individual_and_never_expire() -> None:
    """Each source has its own dead-letter topic, for expired records too, and dead letters never expire."""
    entry = PolicyEntry()
    assert entry.redelivery_policy == RedeliveryPolicy()
    assert entry.dead_letter_strategy == DeadLetterStrategy(
        kind=DeadLetterKind.INDIVIDUAL, topic="DLQ.{topic}", process_expired=True, expiration=0
    )


def test_by_default_a_handler_may_not_choose_its_delay() -> None:
    """Such delays need more tiers, so they must be allowed explicitly."""
    assert PolicyEntry().maximum_handler_delay is None


@pytest.mark.parametrize(
    ("maximum", "allowed"),
    [
        pytest.param(6, 7, id="six redeliveries are seven deliveries"),
        pytest.param(1, 2, id="one"),
        pytest.param(0, 1, id="zero is a limit: one delivery, no redelivery"),
        pytest.param(-2, 0, id="below -1: not even the first"),
        pytest.param(-5, 0, id="far below -1: not even the first"),
    ],
)
def test_a_maximum_of_redeliveries_allows_one_delivery_more(maximum: int, allowed: int) -> None:
    """The policy is exceeded after exactly the allowed deliveries."""
    policy = RedeliveryPolicy(maximum_redeliveries=maximum)
    deliveries = 0
    while not policy.exceeded(deliveries):
        deliveries += 1
    assert deliveries == allowed


@pytest.mark.parametrize("deliveries", [0, 1, 7, 10**9])
def test_minus_one_is_no_maximum(deliveries: int) -> None:
    """A policy without a maximum is never exceeded."""
    assert not RedeliveryPolicy(maximum_redeliveries=-1).exceeded(deliveries)


@pytest.mark.parametrize(("factor", "percent"), [(0.0, 0), (0.15, 15), (0.29, 29), (1.0, 100), (-0.15, -15)])
def test_the_percentage_of_the_factor_is_whole(factor: float, percent: int) -> None:
    """Classic's getter returns whole per cent, without errors of binary fractions."""
    assert RedeliveryPolicy(collision_avoidance_factor=factor).collision_avoidance_percent == percent


@pytest.mark.parametrize(
    ("used", "factor", "randomised"),
    [(False, 0.15, False), (True, 0.15, True), (True, -0.15, True), (True, 0.0, False), (False, 0.0, False)],
)
def test_a_policy_is_random_only_if_draws_can_matter(used: bool, factor: float, randomised: bool) -> None:  # noqa: FBT001
    """Without collision avoidance, or with a factor of 0, every record gets the same delays."""
    policy = RedeliveryPolicy(use_collision_avoidance=used, collision_avoidance_factor=factor)
    assert policy.randomised is randomised


@pytest.mark.parametrize("value", [RedeliveryPolicy(), DeadLetterStrategy(), PolicyEntry()], ids=type)
def test_what_is_configured_is_frozen(value: object) -> None:
    """A policy cannot change while records are processed."""
    name = next(iter(type(value).__dataclass_fields__))  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, None)


def test_the_values_in_the_configuration_file() -> None:
    """The values of the enumerations are written in configuration files and must not change."""
    assert [str(kind) for kind in DeadLetterKind] == ["individual", "shared", "discarding"]
    assert [str(algorithm) for algorithm in BackOffAlgorithm] == ["current", "activemq-5.8"]


@pytest.mark.parametrize(
    ("strategy", "templates"),
    [
        (DeadLetterStrategy(topic="a", expiry_topic="b"), ("a", "b")),
        (DeadLetterStrategy(kind=DeadLetterKind.SHARED, topic="a"), ("a",)),
        (DeadLetterStrategy(kind=DeadLetterKind.DISCARDING, topic="a", expiry_topic="b"), ()),
    ],
)
def test_the_topics_that_dead_letters_can_go_to(strategy: DeadLetterStrategy, templates: tuple[str, ...]) -> None:
    """A discarding strategy has none, whatever else it says."""
    assert strategy.templates == templates


@pytest.mark.parametrize(("sent_ms", "expires_ms"), [(-1, 0), (0, 5), (7, 12)])
def test_expiry_delays_count_from_the_timestamp(sent_ms: int, expires_ms: int) -> None:
    """Every timestamp counts, from the first millisecond of 1970 on; a negative one says that there is none."""
    assert PolicyEntry(redelivery_policy=AddressSettings(expiry_delay=5)).expiration_ms(0, sent_ms) == expires_ms
