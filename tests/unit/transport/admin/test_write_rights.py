"""Which records of a write cannot be written, by the answers of the brokers."""

from collections.abc import Iterable
from typing import cast

import pytest
from confluent_kafka import KafkaError, Node, TopicPartitionInfo, Uuid
from confluent_kafka.admin import AclOperation, TopicDescription

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.write_rights import WriteRights
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import ProducerRecord

MISSING, FORBIDDEN = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED
OFFLINE, FEW = KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_ENOUGH_REPLICAS
SOMEWHERE, NOWHERE = Node(1, "kafka", 9092), Node(-1, "", -1)


def described(*leaders: Node | None, rights: Iterable[AclOperation] = (AclOperation.WRITE,)) -> TopicDescription:
    """A topic with a partition for each leader."""
    return of_partitions(
        [TopicPartitionInfo(number, cast("Node", leader), [], []) for number, leader in enumerate(leaders)], rights
    )


def of_partitions(
    partitions: list[TopicPartitionInfo], rights: Iterable[AclOperation] = (AclOperation.WRITE,)
) -> TopicDescription:
    """A topic with these partitions."""
    return TopicDescription(
        "t", Uuid(0, 1), is_internal=False, partitions=partitions, authorized_operations=list(rights)
    )


def codes(monkeypatch: pytest.MonkeyPatch, answer: TopicDescription | int, *partitions: int | None) -> dict[int, int]:
    """Return the error codes of records for these partitions."""
    topics = {"t": answer}

    def describe(_calls: AdminCalls, names: Iterable[str]) -> dict[str, TopicDescription | int]:
        return {name: topics[name] for name in names}

    monkeypatch.setattr("kafka_redelivery.transport.admin.write_rights.describe_topics", describe)
    rights = WriteRights({"bootstrap.servers": "localhost:1", "log_level": 0})
    found = rights.unwritable([ProducerRecord("t", partition, None, b"", []) for partition in partitions])
    return {index: error.code() for index, error in found.items()}


@pytest.mark.parametrize("leader", [None, NOWHERE])
def test_only_the_records_of_a_partition_without_a_leader(monkeypatch: pytest.MonkeyPatch, leader: Node | None) -> None:
    """And those whose partition the partitioner chooses: it may be that one."""
    answer = described(SOMEWHERE, leader, SOMEWHERE)
    assert codes(monkeypatch, answer, 0, 1, 2, None) == {1: OFFLINE, 3: OFFLINE}


def test_all_records_of_a_topic_that_is_led(monkeypatch: pytest.MonkeyPatch) -> None:
    """They can be written."""
    assert codes(monkeypatch, described(SOMEWHERE, SOMEWHERE), 0, 1, None) == {}


@pytest.mark.parametrize(("least", "refused"), [("1", {}), ("2", {1: FEW, 2: FEW}), ("3", {1: FEW, 2: FEW})])
def test_records_of_a_partition_with_too_few_replicas_in_sync(
    monkeypatch: pytest.MonkeyPatch, least: str, refused: dict[int, int]
) -> None:
    """And those whose partition the partitioner chooses. A topic that has fewer replicas than it needs needs all."""
    monkeypatch.setattr(WriteRights, "_properties", lambda *_: {"t": least})
    both, one = [SOMEWHERE, Node(2, "kafka", 9092)], [SOMEWHERE]
    answer = of_partitions([TopicPartitionInfo(0, SOMEWHERE, both, both), TopicPartitionInfo(1, SOMEWHERE, both, one)])
    assert codes(monkeypatch, answer, 0, 1, None) == refused


def test_it_is_unknown_how_many_have_to_be_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to know it, no record is held back."""
    monkeypatch.setattr(WriteRights, "_properties", lambda *_: {})
    answer = of_partitions([TopicPartitionInfo(0, SOMEWHERE, [SOMEWHERE, SOMEWHERE], [SOMEWHERE])])
    assert codes(monkeypatch, answer, 0, None) == {}


def test_a_question_without_an_answer_is_asked_through_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first client may have asked a broker that has died, and would ask it again."""
    asked: list[AdminCalls] = []

    def describe(calls: AdminCalls, names: Iterable[str]) -> dict[str, TopicDescription | int]:
        asked.append(calls)
        if len(asked) == 1:
            raise TransportError("no answer")
        return dict.fromkeys(names, MISSING)

    monkeypatch.setattr("kafka_redelivery.transport.admin.write_rights.describe_topics", describe)
    rights = WriteRights({"bootstrap.servers": "localhost:1", "log_level": 0})
    records = [ProducerRecord("t", 0, None, b"", [])]
    assert rights.unwritable(records) == {}
    assert rights.unwritable(records)[0].code() == MISSING
    assert rights.unwritable(records)[0].code() == MISSING
    assert asked[0] is not asked[1] is asked[2]


@pytest.mark.parametrize(
    ("answer", "code"), [(MISSING, MISSING), (described(None, rights=[AclOperation.READ]), FORBIDDEN)]
)
def test_a_topic_that_is_missing_or_forbidden(
    monkeypatch: pytest.MonkeyPatch, answer: TopicDescription | int, code: int
) -> None:
    """It says so, whether or not it has leaders."""
    assert codes(monkeypatch, answer, 0, None) == {0: code, 1: code}
