"""A partition that cannot be fetched is fetched again after growing pauses, and others are not affected."""

from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, TopicDescription

from kafka_redelivery.transport.errors import PartitionUnfetchableError, TopicForbiddenError, Unfetchable
from kafka_redelivery.transport.protocols import Partition
from kafka_redelivery.transport.unreadable import ForbiddenTopics, UnfetchablePartitions
from tests.unit.consumers.doubles import Clock

ORDERS, OTHER = Partition("orders", 0), Partition("orders", 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the pauses."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.transport.unreadable.monotonic", clock)
    return clock


def _damaged(partition: Partition, offset: int = 7) -> PartitionUnfetchableError:
    return PartitionUnfetchableError(*partition, offset, "bad checksum", Unfetchable.DAMAGED)


def test_the_pauses_grow(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """From 1 s to 30 s, and the same problem is logged once."""
    halted = UnfetchablePartitions()
    for pause_s in (1, 2, 4, 8, 16, 30, 30):
        halted.add(ORDERS, _damaged(ORDERS))
        clock.advance(pause_s - 0.5)
        assert halted.is_halted(ORDERS)
        assert halted.take_due() == []
        clock.advance(0.5)
        assert halted.take_due() == [ORDERS]
        assert not halted.is_halted(ORDERS)
        assert list(halted.errors) == [ORDERS]
    [message] = caplog.messages
    assert "orders-0 is halted: it cannot be fetched at offset 7 (bad checksum)" in message
    assert "kafka-delete-records.sh" in message


def test_a_fetched_record_ends_the_halt(clock: Clock) -> None:
    """Only of a partition that is being tried: what was fetched before the error says nothing."""
    halted = UnfetchablePartitions()
    halted.add(ORDERS, _damaged(ORDERS))
    halted.add(OTHER, _damaged(OTHER))
    halted.fetched({ORDERS, OTHER})
    assert set(halted.errors) == {ORDERS, OTHER}
    clock.advance(1)
    assert halted.take_due() == [ORDERS, OTHER]
    halted.fetched({ORDERS})
    assert set(halted.errors) == {OTHER}
    halted.add(ORDERS, _damaged(ORDERS, 9))
    clock.advance(1)
    assert halted.take_due() == [ORDERS]  # its pauses begin anew


def test_a_partition_that_is_given_back_is_forgotten(clock: Clock) -> None:
    """Another member fetches it, and finds the error itself."""
    halted = UnfetchablePartitions()
    halted.add(ORDERS, _damaged(ORDERS))
    halted.drop(ORDERS)
    clock.advance(60)
    assert halted.take_due() == []
    assert halted.errors == {}


def test_a_refused_topic_is_asked_for_by_another_client_when_one_has_no_answer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client goes on asking the node that was the controller when it connected, also if it never comes back."""
    late: Future[TopicDescription] = Future()
    late.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    readable: Future[TopicDescription] = Future()
    readable.set_result(Mock(spec=TopicDescription, authorized_operations=[AclOperation.READ]))
    clients = iter([Mock(**{"describe_topics.return_value": {"orders": answer}}) for answer in (late, readable)])
    monkeypatch.setattr("kafka_redelivery.transport.opening.open_admin", lambda *_: next(clients))
    topics = ForbiddenTopics({})
    topics.add(TopicForbiddenError("orders", "no right"))
    for _ in range(4):
        assert topics.problems
        clock.advance(60)
        topics.poll()
    assert not topics.problems


def _failed(code: int) -> Future[TopicDescription]:
    answer: Future[TopicDescription] = Future()
    answer.set_exception(KafkaException(KafkaError(code)))
    return answer


@pytest.mark.parametrize(
    ("code", "over"), [(KafkaError.UNKNOWN_TOPIC_OR_PART, True), (KafkaError.TOPIC_AUTHORIZATION_FAILED, False)]
)
def test_a_refused_topic_that_was_deleted_is_no_longer_refused(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, code: int, *, over: bool
) -> None:
    """Who may not even describe a topic gets another answer, also if it does not exist."""
    client = Mock(**{"describe_topics.return_value": {"orders": _failed(code)}})
    monkeypatch.setattr("kafka_redelivery.transport.opening.open_admin", lambda *_: client)
    topics = ForbiddenTopics({})
    topics.add(TopicForbiddenError("orders", "no right"))
    clock.advance(60)
    topics.poll()
    topics.poll()
    assert list(topics.problems) == ([] if over else ["orders"])


def test_a_refused_topic_that_is_no_longer_subscribed_is_forgotten() -> None:
    """A tier that was removed, for example."""
    topics = ForbiddenTopics({})
    for topic in ("orders", "bills"):
        topics.add(TopicForbiddenError(topic, "no right"))
    topics.keep(["bills"])
    assert list(topics.problems) == ["bills"]
