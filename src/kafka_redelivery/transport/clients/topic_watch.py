"""Which topics stand behind names: how many partitions they have, and whether they were created again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import DescribeClusterResult, TopicDescription

from kafka_redelivery.topology.wire.topic_mark import topic_mark
from kafka_redelivery.transport.admin.topics import ABSENT
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.clients.outage import Outage, Report
from kafka_redelivery.transport.errors import ClientSettingsError
from kafka_redelivery.transport.opening import LastingAdmin

_INTERVAL_S = 5.0
_TIMEOUT_S = 4.0
_SUBJECT = "topics"


class FoundTopic(NamedTuple):
    """A topic that exists."""

    partitions: int
    mark: str
    """See :mod:`kafka_redelivery.topology.wire.topic_mark`; empty if the brokers give no ids."""


class TopicWatch:
    """Asks for given topics, because the cluster may have many others. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, ConfigValue], report: Report | None = None) -> None:
        """Keep the settings; the client connects with the first request.

        Args:
            kafka: the client settings.
            report: receives that Kafka does not answer, and ``None`` when it answers. Without it :meth:`look` ends with
                an error after a minute.
        """
        self._admin = LastingAdmin(admin_config(kafka))
        self._report: Report = report or (lambda *_, **__: None)
        self._outage = Outage(_SUBJECT, report)
        self._pending: _Answers | None = None
        self._ask_at_s = 0.0
        self._unanswered = False
        """Whether the last question of :meth:`poll` had no answer."""

    def look(self, topics: Iterable[str]) -> dict[str, FoundTopic]:
        """Return the topics that may be described; wait until Kafka answers. One that does not exist has no partitions.

        Raises:
            ReaderError: the broker refuses.
        """
        wanted = sorted(set(topics))
        if not wanted:
            return {}
        missing = dict.fromkeys(wanted, FoundTopic(0, ""))
        problem = "the topics cannot be described"
        return self._outage.repeat(lambda: self._found(self._ask(wanted), {}, missing), problem)

    def poll(self, topics: Iterable[str], known: Mapping[str, FoundTopic]) -> dict[str, FoundTopic] | None:
        """Return a new answer: those of the topics that exist. Asks every five seconds and does not wait.

        A known topic that may not be described any more stays as it was. Only two questions in a row without an answer
        are reported: a client asks the node that it takes for the controller, also while that one is replaced.

        Args:
            topics: what the next request asks for, if it is time for one.
            known: the topics that are known to exist.

        Returns:
            ``None`` if there is no new answer, or Kafka has not answered in time.
        """
        if self._pending is not None:
            return self._take_answer(self._pending, known) if self._pending.done() else None
        now_s = monotonic()
        if now_s >= self._ask_at_s:
            self._ask_at_s = now_s + _INTERVAL_S
            wanted = sorted(set(topics))
            if wanted:
                try:
                    self._pending = self._ask(wanted)
                except ClientSettingsError as error:
                    self._note_no_answer(str(error))
        return None

    def _ask(self, topics: list[str]) -> _Answers:
        client, self._pending = self._admin.client(), None  # of a client that is replaced there is no answer any more
        return _Answers(
            client.describe_cluster(request_timeout=_TIMEOUT_S),
            client.describe_topics(TopicCollection(topics), request_timeout=_TIMEOUT_S),
        )

    def _found(
        self,
        answers: _Answers,
        known: Mapping[str, FoundTopic],
        missing: Mapping[str, FoundTopic] = MappingProxyType({}),
    ) -> dict[str, FoundTopic]:
        """Return :meth:`_Answers.found`, and note whether there was an answer."""
        try:
            found = answers.found(known, missing)
        except KafkaException as exception:
            self._admin.answered(exception)
            raise
        self._admin.answered()
        return found

    def _take_answer(self, answers: _Answers, known: Mapping[str, FoundTopic]) -> dict[str, FoundTopic] | None:
        self._pending = None
        try:
            found = self._found(answers, known)
        except KafkaException as exception:
            self._note_no_answer(exception.args[0].str())
            return None
        self._unanswered = False
        self._report(_SUBJECT, None)
        return found

    def _note_no_answer(self, problem: str) -> None:
        if self._unanswered:
            self._report(_SUBJECT, f"the topics cannot be described: {problem}")
        self._unanswered = True


class _Answers(NamedTuple):
    """The answers to one request for topics, and to one for the id of the cluster."""

    cluster: Future[DescribeClusterResult]
    topics: dict[str, Future[TopicDescription]]

    def done(self) -> bool:
        return self.cluster.done() and all(future.done() for future in self.topics.values())

    def found(
        self, known: Mapping[str, FoundTopic], missing: Mapping[str, FoundTopic] = MappingProxyType({})
    ) -> dict[str, FoundTopic]:
        """Return the topics that exist. Waits for the answers.

        Args:
            known: what to return of a topic that may not be described.
            missing: what to return of one that does not exist.

        Raises:
            KafkaException: Kafka does not answer in time, or refuses for another reason than a right on a topic.
        """
        mark = partial(topic_mark, str(self.cluster.result().cluster_id or ""))
        found: dict[str, FoundTopic] = {}
        for topic, future in self.topics.items():
            try:
                described = future.result()
            except KafkaException as exception:
                code = exception.args[0].code()
                if code not in ABSENT:
                    raise
                instead = known if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else missing
                found |= {topic: instead[topic]} if topic in instead else {}
            else:
                found[topic] = FoundTopic(len(described.partitions), mark(str(described.topic_id)))
        return found
