"""Settings: defaults, policies of sources, redaction."""

import pytest
from pydantic import ValidationError

from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.policy_section import (
    DeadLetterStrategySection,
    PolicyEntrySection,
    RedeliveryPolicySection,
)
from kafka_redelivery.topology.config.redaction import HIDDEN, shown
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


SECRETS = {
    "sasl.password": HIDDEN,
    "ssl.key.pem": HIDDEN,
    "ssl.key.password": HIDDEN,
    "sasl.oauthbearer.client.secret": HIDDEN,
    "admin.sasl.password": HIDDEN,
    "sasl.oauthbearer.extensions": HIDDEN,
    "spark.ssl.keystore.key": HIDDEN,
    "spark.ssl.keystore.certificate.chain": HIDDEN,
    "a.setting.of.next.year": HIDDEN,
    "ssl.key.location": "given",
    "sasl.username": "given",
    "bootstrap.servers": "given",
}


SPARK = {
    "spark.hadoop.fs.s3a.secret.key": HIDDEN,
    "spark.hadoop.fs.azure.account.key.here": HIDDEN,
    "spark.ssl.keyPassword": HIDDEN,
    "spark.executorEnv.API": HIDDEN,
    "spark.driver.memory": "given",
    "spark.sql.shuffle.partitions": "given",
}


def test_secrets_are_not_shown() -> None:
    """They are hidden in the printed configuration and in the settings' ``repr``."""
    registry = {"url": "http://user:gi/ven@registry,http://b?key=given", "basic.auth.user.info": "user:given"}
    spark = dict.fromkeys(SPARK, "given")
    settings = Settings.model_validate(
        BASE
        | {
            "kafka": dict.fromkeys(SECRETS, "given"),
            "sources": [{"topic": "a", "value": {"format": "avro", "registry": registry}}],
            "pipeline": {"checkpoint": "c", "spark": spark},
        }
    )
    document = shown(settings)
    assert document["kafka"] == SECRETS
    assert document["sources"][0]["value"]["registry"] == {
        "url": f"http://{HIDDEN}@registry,http://b?{HIDDEN}",
        "basic.auth.user.info": HIDDEN,
    }
    assert document["pipeline"]["spark"] == SPARK
    assert "given" not in repr(settings)


def test_a_batch_is_not_larger_than_the_buffer() -> None:
    """A buffer smaller than the default batch is not a fault."""
    assert LimitsSection.model_validate({"bufferRecords": 10}).batch_records == 10
    assert LimitsSection.model_validate({"batch": 5, "bufferRecords": 10}).batch_records == 5
