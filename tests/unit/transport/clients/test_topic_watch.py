"""What a running process takes for the topics that exist."""

from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import DescribeClusterResult, TopicDescription

from kafka_redelivery.transport.clients.topic_watch import FoundTopic, TopicWatch, _Answers

KNOWN = {"t": FoundTopic(3, "")}


@pytest.mark.parametrize(
    ("code", "found"), [(KafkaError.TOPIC_AUTHORIZATION_FAILED, KNOWN), (KafkaError.UNKNOWN_TOPIC_OR_PART, {})]
)
def test_a_known_topic_that_may_not_be_described_still_exists(code: int, found: dict[str, FoundTopic]) -> None:
    """Also if that is the first answer: the topics were listed before. One that was never known does not."""
    watch = TopicWatch({"bootstrap.servers": "localhost:1"})
    cluster: Future[DescribeClusterResult] = Future()
    cluster.set_result(Mock(spec=DescribeClusterResult, cluster_id="here"))
    for known, expected in ((KNOWN, found), ({}, {})):
        refused: Future[TopicDescription] = Future()
        refused.set_exception(KafkaException(KafkaError(code)))
        watch._pending = _Answers(cluster, {"t": refused})
        assert watch.poll([], known) == expected


def test_two_questions_without_an_answer_are_a_wait_for_kafka() -> None:
    """One is not: a broker that is replaced leaves no process unready whose records are handled meanwhile."""
    report = Mock()
    watch = TopicWatch({"bootstrap.servers": "localhost:1"}, report)
    waits = []
    for code in (KafkaError._TIMED_OUT, None, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT, None):
        cluster: Future[DescribeClusterResult] = Future()
        if code is None:
            cluster.set_result(Mock(spec=DescribeClusterResult, cluster_id="here"))
        else:
            cluster.set_exception(KafkaException(KafkaError(code)))
        report.reset_mock()
        watch._pending = _Answers(cluster, {})
        watch.poll([], KNOWN)
        waits.append([call.args[1] is not None for call in report.call_args_list])
    assert waits == [[], [False], [], [True], [False]]


def test_after_an_error_another_client_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client goes on asking the node that was the controller when it connected, also if it never comes back."""
    gone, here = Mock(), Mock()
    cluster: Future[DescribeClusterResult] = Future()
    cluster.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    gone.describe_cluster.return_value = cluster
    found: Future[DescribeClusterResult] = Future()
    found.set_result(Mock(spec=DescribeClusterResult, cluster_id="here"))
    here.describe_cluster.return_value = found
    for client in (gone, here):
        client.describe_topics.return_value = {}
    clients = iter([gone, here])
    monkeypatch.setattr("kafka_redelivery.transport.opening.open_admin", lambda *_: next(clients))
    monkeypatch.setattr("kafka_redelivery.transport.clients.topic_watch._INTERVAL_S", 0.0)
    watch = TopicWatch({"bootstrap.servers": "localhost:1"})
    assert [watch.poll(["t"], {}) for _ in range(4)] == [None, None, None, {}]
    here.describe_topics.assert_called_once()
