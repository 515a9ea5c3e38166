"""Where the failures of a source go, by the policy that its configuration has for it."""

import pytest

from consumers.routes import Route
from serdes.codec import RawCodec
from topology.configuration import load_settings
from topology.decision import DeadLetter, Failure, FailureKind, Reason
from topology.lineage import Lineage

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
    """The route of a source, with this section of the file."""
    return Route.of(load_settings(YAML + dialect), topic, RAW, RAW)


def topics(found: Route) -> tuple[str, str]:
    """Where what failed goes, and where what expired goes."""
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
def test_each_dialect_names_the_topics_of_its_own_way(dialect: str, failed: str, expired: str) -> None:
    """One topic for all, one for each source, and Artemis's second one for what expired."""
    assert topics(route(dialect)) == (failed, expired)


def test_sources_have_policies_of_their_own() -> None:
    """The other source is not matched, and keeps what the dialect gives to all."""
    dialect = """
activemq:
  redeliveryPolicyMap: {redeliveryPolicyEntries: [{queue: "orders.>", maximumRedeliveries: 0}]}
"""
    assert route(dialect).entry.redelivery_policy.exceeded(1)
    assert not route(dialect, "quotes").entry.redelivery_policy.exceeded(6)
    assert route(dialect, "quotes").entry.redelivery_policy.exceeded(7)


def test_the_policy_can_say_when_a_record_expires() -> None:
    """Artemis's expiry delay counts from when the record was written; a time of its own is kept."""
    found = route("artemis: {address-settings: [{match: '#', expiry-delay: 5000}]}")
    assert found.with_expiration(SOURCE).expiration_ms == BORN + 5000
    own = SOURCE._replace(expiration_ms=BORN + 9000)
    assert found.with_expiration(own) == own


@pytest.mark.parametrize("dialect", ["", "activemq: {}", "artemis: {}"])
def test_nothing_expires_unasked(dialect: str) -> None:
    """Without such a setting only the record itself says so."""
    assert route(dialect).with_expiration(SOURCE) == SOURCE
