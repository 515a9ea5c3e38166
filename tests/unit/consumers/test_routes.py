"""The topics for failed records of a source, by its policy."""

import pytest

from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.serdes.codec import RawCodec
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage

RAW = RawCodec()
BORN = 1_780_000_000_000
SOURCE = Lineage("orders.eu", partition=0, offset=0, timestamp_ms=BORN)

YAML = """
group: billing
kafka: {bootstrap.servers: localhost}
handler: {callable: "shop:handle"}
sources: [{topic: orders.eu}, {topic: quotes}]
"""


def route(dialect: str, topic: str = "orders.eu") -> Route:
    """The route of a source, with this dialect section in the configuration."""
    return Route.of(load_settings(YAML + dialect), topic, RAW, RAW)


def topics(found: Route) -> tuple[str, str]:
    """The topics of failed and of expired records."""
    failed, expired = (
        found.dead_letter_of(DeadLetter(reason, Failure(FailureKind.RAISED)))
        for reason in (Reason.REDELIVERIES_EXCEEDED, Reason.EXPIRED)
    )
    return failed, expired


@pytest.mark.parametrize(
    ("dialect", "failed", "expired"),
    [
        ("", "DLQ.orders.eu", "DLQ.orders.eu"),
        ("activemq: {}", "ActiveMQ.DLQ", "ActiveMQ.DLQ"),
        (
            "activemq: {policyEntries: [{queue: '*.eu', deadLetterStrategy: {individualDeadLetterStrategy: {}}}]}",
            "ActiveMQ.DLQ.Queue.orders.eu",
            "ActiveMQ.DLQ.Queue.orders.eu",
        ),
        ("artemis: {address-settings: [{match: '#', dead-letter-address: DLA}]}", "DLA", "DLA"),
        (
            "artemis: {address-settings: [{match: orders.*, dead-letter-address: DLA, expiry-address: Late}]}",
            "DLA",
            "Late",
        ),
    ],
)
def test_each_dialect_names_its_topics(dialect: str, failed: str, expired: str) -> None:
    """One for all sources, one per source, and a second one of Artemis for expired records."""
    assert topics(route(dialect)) == (failed, expired)


def test_each_source_has_its_own_policy() -> None:
    """The second source does not match the entry and keeps the default of the dialect."""
    dialect = """
activemq:
  redeliveryPolicyMap: {redeliveryPolicyEntries: [{queue: "orders.>", maximumRedeliveries: 0}]}
"""
    assert route(dialect).entry.redelivery_policy.exceeded(1)
    assert not route(dialect, "quotes").entry.redelivery_policy.exceeded(6)
    assert route(dialect, "quotes").entry.redelivery_policy.exceeded(7)


def test_a_policy_can_set_the_expiration() -> None:
    """The expiry delay of Artemis starts when the record is written. An expiration of the record itself wins."""
    found = route("artemis: {address-settings: [{match: '#', expiry-delay: 5000}]}")
    assert found.with_expiration(SOURCE).expiration_ms == BORN + 5000
    own = SOURCE._replace(expiration_ms=BORN + 9000)
    assert found.with_expiration(own) == own


@pytest.mark.parametrize("dialect", ["", "activemq: {}", "artemis: {}"])
def test_without_a_setting_only_the_record_sets_its_expiration(dialect: str) -> None:
    """In every dialect."""
    assert route(dialect).with_expiration(SOURCE) == SOURCE
