"""What a consumer is told that will not pass by itself, as errors of ours."""

from __future__ import annotations

from confluent_kafka import KafkaError

from transport.errors import ReaderError, TopicForbiddenError


def read_refusal(error: KafkaError, topic: str, group: str) -> ReaderError:
    """An error of a consumer in plain words.

    Args:
        error: what the client tells.
        topic: what it is about, empty if it is about none.
        group: the consumer's.
    """
    code = error.code()
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED and topic:
        return TopicForbiddenError(topic, error.str())
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return ReaderError(f"the consumer cannot go on: {error.str()}; grant the right Read on group {group}")
    return ReaderError(f"the consumer cannot go on: {error.str()}")
