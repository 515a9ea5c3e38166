"""All topic names, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.topics.naming import MAX_NAME, Naming, check_names, delay_token

NAMING = Naming(group="billing")


@pytest.mark.parametrize(
    ("delay_ms", "token"),
    [
        (1, "1ms"),
        (250, "250ms"),
        (1000, "1s"),
        (1500, "1500ms"),
        (60_000, "1m"),
        (90_000, "90s"),
        (3_600_000, "1h"),
        (5_400_000, "90m"),
        (86_400_000, "1d"),
        (90_000_000, "25h"),
    ],
)
def test_a_delay_in_a_name(delay_ms: int, token: str) -> None:
    """The largest unit that gives a whole number."""
    assert delay_token(delay_ms) == token
    assert NAMING.tier_topic(delay_ms) == f"billing.retry.{token}"


@pytest.mark.parametrize("delay_ms", [0, -1])
def test_a_tier_has_a_positive_delay(delay_ms: int) -> None:
    """Nothing waits in a tier without a delay."""
    with pytest.raises(ValueError, match="must be positive"):
        delay_token(delay_ms)


def test_default_names() -> None:
    """The names of the design."""
    assert NAMING.mixed_topic() == "billing.retry.mixed"
    assert NAMING.ready_topic("orders") == "billing.ready.orders"
    assert NAMING.journal_topic() == "billing.journal"
    assert NAMING.dead_letter_topic("DLQ.{topic}", "orders") == "DLQ.orders"
    assert NAMING.dead_letter_topic("{group}-{topic}-dead", "orders") == "billing-orders-dead"
    assert NAMING.dead_letter_topic("ActiveMQ.DLQ", "orders") == "ActiveMQ.DLQ"


@given(st.lists(st.integers(1, 10**15), unique=True, max_size=5))
def test_tiers_are_found_again(delays: list[int]) -> None:
    """Whatever delays there are tiers for, they are found by their names, the shortest delay first."""
    topics = {NAMING.tier_topic(delay): delay for delay in delays}
    found = NAMING.tiers_among([*topics, "orders", NAMING.mixed_topic(), NAMING.ready_topic("orders")])
    assert found == topics
    assert list(found.values()) == sorted(delays)


@pytest.mark.parametrize(
    "topic",
    [
        "billing.retry.mixed",
        "billing.retry.60s",
        "billing.retry.01s",
        "billing.retry.0s",
        "billing.retry.1w",
        "billing.retry.",
        "billing.retry.1s.x",
        "other.retry.1s",
        "xbilling.retry.1s",
    ],
)
def test_what_is_no_tier(topic: str) -> None:
    """A name that naming a tier would not give is none, even if it looks like one."""
    assert NAMING.tiers_among([topic]) == {}


def test_ready_topics_are_found_among_other_topics() -> None:
    """Each with its source, whether that is configured or not."""
    others = ["orders", NAMING.tier_topic(1000), NAMING.mixed_topic(), "billing.ready.", "other.ready.orders"]
    ready = {"billing.ready.orders": "orders", "billing.ready.a.ready.b": "a.ready.b"}
    assert NAMING.ready_topics_among([*others, *ready]) == ready
    behind = Naming(group="billing", ready="{topic}.due.{group}")
    assert behind.ready_topics_among(["orders.due.billing", ".due.billing", "due.billing"]) == {
        "orders.due.billing": "orders"
    }


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * MAX_NAME])
def test_good_names(name: str) -> None:
    """What a broker accepts is no fault."""
    assert check_names({"the source": name}) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "may only contain"),
        (".", "may only contain"),
        ("..", "may only contain"),
        ("a b", "may only contain"),
        ("ä", "may only contain"),
        ("a/b", "may only contain"),
        ("a\n", "may only contain"),
        ("x" * (MAX_NAME + 1), "has 250 characters, Kafka allows 249"),
    ],
)
def test_bad_names(name: str, problem: str) -> None:
    """What a broker refuses is one fault that says for what the name was."""
    (fault,) = check_names({"the source": name})
    assert (fault.role, fault.name) == ("the source", name)
    assert "(the source)" in str(fault)
    assert problem in fault.problem


@pytest.mark.parametrize(("first", "second"), [("a.b", "a.b"), ("a.b", "a_b")])
def test_ambiguous_names(first: str, second: str) -> None:
    """The same name twice, or one that the broker's metrics cannot tell apart."""
    (fault,) = check_names({"the source": first, "the journal": second})
    assert fault.name == second
    assert "the source has the same" in fault.problem


@pytest.mark.parametrize(
    ("template", "group", "source", "others"),
    [
        ("{group}.ready.{topic}", "g", "t", []),
        ("{group}.ready.{topic}", "g", "h.ready.t", ["g.ready.h"]),
        ("{group}.ready.{topic}", "g.ready.h", "t", ["g"]),
        ("{group}.ready.{topic}", "g", "ready.t", ["g.ready"]),
        ("{group}.ready.{topic}", "g.ready", "t", ["g"]),
        ("{group}.ready.{topic}", "g", "a.ready.b.ready.c", ["g.ready.a", "g.ready.a.ready.b"]),
        ("x.{topic}.of.{group}.y", "g", "a.of.b", ["b.of.g"]),
        ("x.{topic}.of.{group}.y", "g", "t", []),
        ("g.{topic}", "g", "a.b", []),
        ("{group}.{group}.{topic}", "g", "g.g.t", []),
        ("{group}{topic}", "g", "t", []),
    ],
)
def test_other_groups_with_the_same_ready_topic(template: str, group: str, source: str, others: list[str]) -> None:
    """A name can be divided into a group and a source in several ways."""
    naming = Naming(group=group, ready=template)
    topic = naming.ready_topic(source)
    assert naming.other_groups(topic) == others
    for other in others:
        assert group in Naming(group=other, ready=template).other_groups(topic)
