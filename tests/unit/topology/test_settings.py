"""What settings mean."""

import pytest
from pydantic import ValidationError

from topology.policy import DeadLetterKind, RedeliveryPolicy
from topology.policy_settings import DeadLetterStrategySection, PolicyEntrySection, RedeliveryPolicySection
from topology.redaction import HIDDEN, shown
from topology.redelivery import most_deliveries
from topology.settings import LimitsSection, Settings

BASE = {"group": "g", "kafka": {"bootstrap.servers": "x"}, "sources": [{"topic": "a"}, {"topic": "b"}]}


def test_an_empty_policy_is_activemqs_default() -> None:
    """Defaults in the file and in the policy itself are the same."""
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
    """Either sets the factor, zero included."""
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
    """A source's own entry replaces the file's as a whole; a topic that is no source has none."""
    settings = Settings.model_validate(
        BASE
        | {
            "sources": [{"topic": "a", "policy": {"maximumHandlerDelay": "1m"}}, {"topic": "b"}],
            "policyEntry": {"redeliveryPolicy": {"maximumRedeliveries": 0}},
        }
    )
    assert settings.entry("a").maximum_handler_delay == 60_000
    assert most_deliveries(settings.entry("a").redelivery_policy) == 7
    assert most_deliveries(settings.entry("b").redelivery_policy) == 1
    with pytest.raises(KeyError):
        settings.entry("c")


def test_no_handler_delay_is_not_a_delay_of_zero() -> None:
    """Absent: a handler may not ask. Zero: it may ask for at once."""
    assert PolicyEntrySection().value().maximum_handler_delay is None
    assert PolicyEntrySection.model_validate({"maximumHandlerDelay": "0s"}).value().maximum_handler_delay == 0


@pytest.mark.parametrize("field", ["maximumRedeliveries", "backOffMultiplier", "collisionAvoidanceFactor"])
def test_truth_is_no_number(field: str) -> None:
    """``yes`` in YAML would otherwise count as 1."""
    with pytest.raises(ValidationError, match="must be a number"):
        RedeliveryPolicySection.model_validate({field: True})


def test_settings_are_frozen() -> None:
    """Nobody changes a configuration that somebody else has read already."""
    settings = Settings.model_validate(BASE)
    with pytest.raises(ValidationError, match="frozen"):
        settings.group = "other"  # type: ignore[misc]


SECRETS = {
    "sasl.password": HIDDEN,
    "ssl.key.pem": HIDDEN,
    "ssl.key.password": HIDDEN,
    "sasl.oauthbearer.client.secret": HIDDEN,
    "admin.sasl.password": HIDDEN,
    "ssl.key.location": "given",
    "sasl.username": "given",
    "bootstrap.servers": "given",
}


def test_secrets_are_not_shown() -> None:
    """Neither when the configuration is printed, nor in the text of the settings."""
    registry = {"url": "http://user:given@registry", "basic.auth.user.info": "user:given"}
    settings = Settings.model_validate(
        BASE
        | {
            "kafka": dict.fromkeys(SECRETS, "given"),
            "sources": [{"topic": "a", "value": {"format": "avro", "registry": registry}}],
        }
    )
    document = shown(settings)
    assert document["kafka"] == SECRETS
    assert document["sources"][0]["value"]["registry"] == {
        "url": f"http://{HIDDEN}@registry",
        "basic.auth.user.info": HIDDEN,
    }
    assert "given" not in repr(settings)


def test_a_batch_is_not_larger_than_the_buffer() -> None:
    """Who makes the buffer small need not think of the batch."""
    assert LimitsSection.model_validate({"bufferRecords": 10}).batch_records == 10
    assert LimitsSection.model_validate({"batch": 5, "bufferRecords": 10}).batch_records == 5
