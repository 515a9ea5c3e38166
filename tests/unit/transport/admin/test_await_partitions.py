"""How ``apply`` adds partitions, and how long it waits for their leaders."""

from collections.abc import Iterable
from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Node, TopicPartitionInfo, Uuid
from confluent_kafka.admin import TopicDescription

from kafka_redelivery.topology.cluster.changes import Changes, GrowTopic
from kafka_redelivery.transport.admin import cluster_admin
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.errors import AdminError

_PARTITIONS = 16
_LIMIT_S, _LOOK_S = 10.0, 4.0
"""The time limit, and how long a look takes: less than the limit, and all of them take more."""


def _topic(name: str, led: int) -> TopicDescription:
    node = Node(1, "localhost", 9092)
    leaders: list[Any] = [node if number < led else None for number in range(_PARTITIONS)]  # None: it has none
    partitions = [TopicPartitionInfo(number, leader, [node], [node]) for number, leader in enumerate(leaders)]
    return TopicDescription(name, Uuid(0, 1), False, partitions)  # noqa: FBT003 - the client's own


def _waiting(monkeypatch: pytest.MonkeyPatch, most: int) -> ClusterAdmin:
    """An admin whose topics have a leader more at each look, up to ``most``."""
    looks = count(1)
    now_s = 0.0

    def topics(names: Iterable[str]) -> dict[str, TopicDescription]:
        nonlocal now_s
        now_s += _LOOK_S
        led = min(most, next(looks))
        return {name: _topic(name, led) for name in names}

    admin = ClusterAdmin({"bootstrap.servers": "localhost:1"}, timeout_s=_LIMIT_S)
    monkeypatch.setattr(admin, "_topics", topics)
    monkeypatch.setattr(cluster_admin, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(cluster_admin, "_LEADER_CHECK_INTERVAL_S", 0)
    return admin


def test_it_waits_as_long_as_leaders_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many partitions take long, so the time limit is for each further leader."""
    _waiting(monkeypatch, _PARTITIONS)._await_partitions(Changes(grow=(GrowTopic("orders", 1, _PARTITIONS),)))


def test_it_gives_up_when_no_more_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the topics."""
    with pytest.raises(AdminError, match="orders still lack a leader"):
        _waiting(monkeypatch, 3)._await_partitions(Changes(grow=(GrowTopic("orders", 1, _PARTITIONS),)))


@pytest.mark.parametrize(("wanted", "refused"), [(_PARTITIONS, False), (_PARTITIONS + 1, True)])
def test_partitions_that_another_has_added(monkeypatch: pytest.MonkeyPatch, wanted: int, refused: bool) -> None:  # noqa: FBT001 - a case
    """Kafka refuses to add them again, which is no fault."""
    admin = _waiting(monkeypatch, _PARTITIONS)

    def each(*_: object) -> None:
        raise AdminError("add partitions", "the topic has them")

    monkeypatch.setattr(admin, "_calls", SimpleNamespace(each=each))
    with pytest.raises(AdminError) if refused else nullcontext():
        admin._grow(GrowTopic("orders", 1, wanted))
