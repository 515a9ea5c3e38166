"""Which settings lose dead letters of a share group."""

import pytest

from kafka_redelivery.dead_letters.foreign.share_group import share_group_faults

_GROUP = {"errors.deadletterqueue.topic.name": "dlq.orders", "errors.deadletterqueue.copy.record.enable": "true"}
_TOPICS = {"dlq.orders": {"errors.deadletterqueue.group.enable": "true", "cleanup.policy": "delete"}}
_CREATES = {
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "errors.deadletterqueue.topic.name.prefix": "dlq.",
}


def problems(group: dict[str, str], topics: dict[str, dict[str, str]], broker: dict[str, str]) -> list[str]:
    """Return what is wrong; what loses letters begins with an exclamation mark."""
    found = share_group_faults("billing", "dlq.orders", group, topics, broker)
    return [("!" if each.loses_letters else "") + each.problem for each in found]


def test_nothing_is_lost() -> None:
    """Group and topic are set, or the broker creates the topic."""
    assert problems(_GROUP, _TOPICS, {}) == []
    assert problems(_GROUP, {}, _CREATES) == []


@pytest.mark.parametrize(
    ("group", "topics", "broker", "expected"),
    [
        ({}, _TOPICS, {}, "!group billing has no errors.deadletterqueue.topic.name"),
        (_GROUP, {}, {}, "!there is no topic dlq.orders"),
        (
            _GROUP | {"errors.deadletterqueue.topic.name": "b"},
            {},
            _CREATES,
            "!the name of topic b does not begin with dlq.",
        ),
        (_GROUP, {"dlq.orders": {}}, {}, "!topic dlq.orders has not errors.deadletterqueue.group.enable=true"),
        (
            _GROUP,
            {"dlq.orders": {**_TOPICS["dlq.orders"], "cleanup.policy": "compact"}},
            {},
            "!topic dlq.orders is comp",
        ),
        (_GROUP | {"errors.deadletterqueue.copy.record.enable": "false"}, _TOPICS, {}, "the letters have no content"),
        (
            _GROUP | {"errors.deadletterqueue.topic.name": "dlq.b"},
            {"dlq.b": _TOPICS["dlq.orders"]},
            {},
            "the dead letters of group billing go to dlq.b, not to dlq.orders",
        ),
    ],
)
def test_what_is_lost(
    group: dict[str, str], topics: dict[str, dict[str, str]], broker: dict[str, str], expected: str
) -> None:
    """Each setting alone, with its fix."""
    assert problems(group, topics, broker)[-1].startswith(expected)
    assert all(each.fix for each in share_group_faults("billing", "dlq.orders", group, topics, broker))
