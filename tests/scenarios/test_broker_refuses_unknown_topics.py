"""The shared broker answers, and a topic that nobody made stays unmade."""

from confluent_kafka.admin import AdminClient

from transport.embedded import EmbeddedKafka


def test_asking_for_a_topic_does_not_make_it(kafka: EmbeddedKafka, unique: str) -> None:
    """Metadata of an unknown topic is an error on the topic, before and after it was asked for."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})

    asked = admin.list_topics(unique, timeout=10)

    assert asked.topics[unique].error is not None
    assert unique not in admin.list_topics(timeout=10).topics
