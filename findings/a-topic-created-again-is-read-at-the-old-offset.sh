#!/bin/sh
# A consumer goes on at its old offset in a topic that was deleted and created again, and skips the first records.
#
# Versions: confluent-kafka 2.16.0 (with librdkafka 2.16.0), Apache Kafka 4.4.0.
# Good guess: since topics have ids (KIP-516), a running consumer notices that its name stands for another topic, and
#   begins as auto.offset.reset says, or raises an error.
# Seen: a consumer with auto.offset.reset earliest has read three records. Then the topic is deleted, created again, and
#   gets five records before the consumer polls again:
#
#     before: old 0, old 1, old 2
#     after: new 3, new 4
#     errors: none
#
#   With two records instead of five its offset would not exist, and it would begin at the start.
# For a user: how many records are lost depends on how many the new topic got first, and nothing tells. Compare the
#   topic's id, which describe_topics of the AdminClient returns, and seek to the start if it has changed.
#
# Needs: python3 with venv, a Java of version 17 or newer, mvn, timeout. Only loopback is used. It exits with 0 if all
# this is still so.
set -eu

folder=$(mktemp -d)
broker=
end() {
    [ -z "$broker" ] || { kill "$broker" && wait; } 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

python3 -m venv venv
timeout 300 venv/bin/pip install -q --disable-pip-version-check confluent-kafka==2.16.0
cat > pom.xml <<'POM'
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.4.0</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
POM
timeout 600 mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars

set -- $(python3 -c 'if 1:
    import socket
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    print(*(each.getsockname()[1] for each in sockets))')
servers=127.0.0.1:$1
export CLASSPATH='jars/*'
java="java -Xmx384m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
cat > broker.properties <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$2
listeners=PLAINTEXT://$servers,CONTROLLER://127.0.0.1:$2
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
metadata.log.dir=$folder/metadata
log.dirs=$folder/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
PROPERTIES
$java kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ --config broker.properties > /dev/null

$java kafka.Kafka broker.properties > broker.log 2>&1 &
broker=$!

timeout 240 venv/bin/python - "$servers" > seen <<'PYTHON' || { cat seen; tail -n 20 broker.log >&2; exit 1; }
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

settings = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin = AdminClient(settings)
end = time.monotonic() + 90
while True:
    try:
        admin.list_topics(timeout=5)
        break
    except KafkaException:
        if time.monotonic() > end:
            sys.exit("there is no broker")


def create(word, records):
    end = time.monotonic() + 60
    while True:  # the broker deletes in the background
        try:
            admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
            break
        except KafkaException:
            if time.monotonic() > end:
                sys.exit("the topic cannot be created")
            time.sleep(0.5)
    producer = Producer(settings)
    for number in range(records):
        producer.produce("orders", f"{word} {number}".encode(), partition=0)
    if producer.flush(60):
        sys.exit("the records were not written")


errors = []


def read(last, within_s):
    found, end = [], time.monotonic() + within_s
    while time.monotonic() < end and found[-1:] != [last]:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
        elif message is not None:
            errors.append(message.error().name())
    return ", ".join(found)


create("old", 3)
given = {"group.id": "finding", "auto.offset.reset": "earliest", "enable.auto.commit": False}
consumer = Consumer({**settings, **given})
consumer.subscribe(["orders"])
print(f"before: {read('old 2', 60)}")
admin.delete_topics(["orders"])["orders"].result(60)
create("new", 5)
print(f"after: {read('new 4', 60)}")
print(f"errors: {', '.join(errors) or 'none'}")
consumer.close()
PYTHON
cat seen
cat > expected <<'SEEN'
before: old 0, old 1, old 2
after: new 3, new 4
errors: none
SEEN
diff expected seen || { echo "CHANGED: a consumer treats a topic that was created again differently"; exit 1; }
