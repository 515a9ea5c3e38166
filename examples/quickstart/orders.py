"""Send three orders: one that can be charged, one that is always rejected, and bytes that are not an order."""

import json
import os

from confluent_kafka import Producer

KAFKA = os.environ.get("REDELIVERY_KAFKA__BOOTSTRAP_SERVERS", "localhost:9092")

if __name__ == "__main__":
    producer = Producer({"bootstrap.servers": KAFKA})
    producer.produce("orders", json.dumps({"amount": 5}), key="anna")
    producer.produce("orders", json.dumps({"amount": -5}), key="ben")
    producer.produce("orders", b"\xff\xfe broken", key="carl")
    producer.flush(10)
    print(f"three orders sent to {KAFKA}")
