"""Which topics are swept, and where what expires in them is kept."""

from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan, sweep_plan
from tests.unit.topology.clusters import settings

TEXT = """
group: billing
kafka: {bootstrap.servers: x}
sources:
  - topic: orders
    policy: {deadLetterStrategy: {expiration: 1000, expiryAddress: "EXP.{topic}"}}
  - topic: bills
    policy: {deadLetterStrategy: {kind: shared, expiration: 0}}
  - topic: clicks
    policy: {deadLetterStrategy: {kind: discarding, expiration: 1000}}
"""


def test_all_topics_that_dead_letters_land_in_are_swept() -> None:
    """Those of a policy without expiration, too: what is there may come from an earlier one."""
    found = sweep_plan(settings(TEXT))
    assert found.topics == ("ActiveMQ.DLQ", "DLQ.orders", "EXP.orders")
    assert found.expiring
    assert found.moving


def test_without_an_expiration_there_is_nothing_to_do() -> None:
    """A strategy that keeps no dead letters has none that expire."""
    text = "group: g\nkafka: {bootstrap.servers: x}\nsources: [{topic: a}]\n"
    assert not sweep_plan(settings(text)).expiring
    discarding = "policyEntry: {deadLetterStrategy: {kind: discarding, expiration: 5}}\n"
    assert not sweep_plan(settings(text + discarding)).expiring
    assert sweep_plan(settings(text + "policyEntry: {deadLetterStrategy: {expiration: 5}}\n")).expiring


def test_what_expires_goes_where_its_own_source_says() -> None:
    """Nowhere, if that says nothing."""
    found = sweep_plan(settings(TEXT))
    assert found.expiry_topic("DLQ.orders", "orders") == "EXP.orders"
    assert found.expiry_topic("ActiveMQ.DLQ", "bills") is None


def test_what_expires_of_an_unknown_source_is_kept_where_others_are() -> None:
    """Its policy may have said so; nothing is lost because a source was taken out of the configuration."""
    found = sweep_plan(settings(TEXT))
    assert found.expiry_topic("DLQ.orders", "orders.old") == "EXP.orders"
    nowhere = SweepPlan(group="g", topics=("DLQ.a",), expiring=True, expiries={"a": None})
    assert nowhere.expiry_topic("DLQ.a", "b") is None


def test_what_expires_in_an_expiry_topic_is_removed() -> None:
    """Otherwise it would be moved without end."""
    assert sweep_plan(settings(TEXT)).expiry_topic("EXP.orders", "orders") is None
