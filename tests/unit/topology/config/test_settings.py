"""Settings: defaults, policies of sources."""

import pytest
from pydantic import ValidationError

from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.section import (
    DeadLetterStrategySection,
    PolicyEntrySection,
    RedeliveryPolicySection,
)
from kafka_redelivery.topology.config.settings import LimitsSection, Settings
from kafka_redelivery.topology.policy.entry import DeadLetterKind

BASE = {"group": "g", "kafka": {"bootstrap.servers": "x"}, "sources": [{"topic": "a"}, {"topic": "b"}]}


def test_an_empty_policy_is_activemqs_default() -> None:
    """The defaults of the section equal those of the policy."""
    assert RedeliveryPolicySection().value() == RedeliveryPolicy()


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ({}, 0.15),
        ({"collisionAvoidanceFactor": 0.0}, 0.0),
        ({"collisionAvoidancePercent": 0}, 0.0),
        ({"collisionAvoidancePercent": 25}, 0.25),
        ({"collisionAvoidanceFactor": 0.5}, 0.5),
    ],
)
def test_collision_avoidance_is_a_factor_or_a_percentage(given: dict[str, float], factor: float) -> None:
    """Either of them sets the factor; 0 is a value."""
    assert RedeliveryPolicySection.model_validate(given).value().collision_avoidance_factor == factor


@pytest.mark.parametrize(
    ("kind", "topic", "template"),
    [
        ("individual", None, "DLQ.{topic}"),
        ("shared", None, "ActiveMQ.DLQ"),
        ("shared", "dead", "dead"),
        ("individual", "d.{topic}", "d.{topic}"),
    ],
)
def test_the_dead_letter_template(kind: DeadLetterKind, topic: str | None, template: str) -> None:
    """The default depends on the kind."""
    assert DeadLetterStrategySection(kind=kind, topic=topic).value().topic == template


def test_a_source_may_have_its_own_policy() -> None:
    """It replaces the file's policy entry as a whole; a topic that is not a source has no entry."""
    settings = Settings.model_validate(
        BASE
        | {
            "sources": [{"topic": "a", "policy": {"maximumHandlerDelay": "1m"}}, {"topic": "b"}],
            "policyEntry": {"redeliveryPolicy": {"maximumRedeliveries": 0}},
        }
    )
    assert settings.entry("a").maximum_handler_delay == 60_000
    assert settings.entry("a").redelivery_policy.max_deliveries == 7
    assert settings.entry("b").redelivery_policy.max_deliveries == 1
    with pytest.raises(KeyError):
        settings.entry("c")


def test_no_handler_delay_is_not_a_delay_of_zero() -> None:
    """Without the setting a handler may not request a delay; with 0s it may request an immediate redelivery."""
    assert PolicyEntrySection().value().maximum_handler_delay is None
    assert PolicyEntrySection.model_validate({"maximumHandlerDelay": "0s"}).value().maximum_handler_delay == 0


@pytest.mark.parametrize("field", ["maximumRedeliveries", "backOffMultiplier", "collisionAvoidanceFactor"])
def test_a_boolean_is_not_a_number(field: str) -> None:
    """Pydantic would read ``yes`` as 1."""
    with pytest.raises(ValidationError, match="must be a number"):
        RedeliveryPolicySection.model_validate({field: True})


def test_settings_are_frozen() -> None:
    """Fields cannot be assigned."""
    settings = Settings.model_validate(BASE)
    with pytest.raises(ValidationError, match="frozen"):
        settings.group = "other"  # type: ignore[misc]


def test_a_batch_is_not_larger_than_the_buffer() -> None:
    """A buffer smaller than the default batch is not a fault."""
    assert LimitsSection.model_validate({"bufferRecords": 10}).batch_records == 10
    assert LimitsSection.model_validate({"batch": 5, "bufferRecords": 10}).batch_records == 5
