"""The shared broker does not create a topic that a client asks for."""

from confluent_kafka.admin import AdminClient

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka


def test_asking_for_a_topic_does_not_make_it(kafka: EmbeddedKafka, unique: str) -> None:
    """Metadata of an unknown topic has an error for that topic, both at the first request and at the second."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})

    asked = admin.list_topics(unique, timeout=60)

    assert asked.topics[unique].error is not None
    assert unique not in admin.list_topics(timeout=60).topics
