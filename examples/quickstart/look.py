"""Print the topics receipts and DLQ.orders with a plain Kafka client; headers are plain text."""

import os

from confluent_kafka import Consumer, TopicPartition

KAFKA = os.environ.get("REDELIVERY_KAFKA__BOOTSTRAP_SERVERS", "localhost:9092")
TOPICS = ("receipts", "DLQ.orders")

if __name__ == "__main__":
    consumer = Consumer(
        {
            "bootstrap.servers": KAFKA,
            "group.id": "look",  # required by the client; nothing is committed under it
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # otherwise records of aborted transactions are visible
        }
    )
    known = consumer.list_topics(timeout=10).topics
    consumer.assign([TopicPartition(name, number, 0) for name in TOPICS for number in known[name].partitions])
    while (record := consumer.poll(3)) is not None:
        print(f"{record.topic()}-{record.partition()}@{record.offset()} {record.key()!r} {record.value()!r}")
        for name, value in dict(record.headers() or {}).items():
            print(f"    {name}: {value.decode() if isinstance(value, bytes) else value}")
    consumer.close()
