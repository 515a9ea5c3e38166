#!/bin/sh
# A topic with one replica and min.insync.replicas=2 takes writes with acks=all.
#
# Versions: Apache Kafka 4.4.0, confluent-kafka 2.16.0 (with librdkafka 2.16.0).
# Good guess: the documentation of min.insync.replicas says that a producer with acks=all gets NotEnoughReplicas if the
#   in-sync replicas are fewer, and that consumers do not see the records then. One replica is fewer than two, so each write
#   fails; or the topic cannot be made.
# Seen: the topic is made, keeps min.insync.replicas=2, and its records are acknowledged and read:
#
#     replicas 1, in sync 1, min.insync.replicas 2
#     acks=all: written at offset 0
#     acks=all, idempotent: written at offset 1
#     read: [b'acks=all', b'acks=all, idempotent']
#
#   The broker needs no more replicas in sync than the partition has. That is so with the feature
#   eligible.leader.replicas.version off, as here, and on; the documentation names another meaning only for the second.
#   KAFKA-21110 asks for its correction.
# For a user: a topic that was made with too few replicas looks safe in its settings, and its producers get no error: one
#   lost disk takes its records. Compare min.insync.replicas with the number of replicas of each topic.
#
# Needs: python3 with venv, a Java of version 17 or newer, mvn, timeout. Only loopback is used. It exits with 0 if all
# this is still so.
set -eu

folder=$(mktemp -d)
broker=
end() {
    [ -z "$broker" ] || { kill "$broker" && wait "$broker"; } 2>/dev/null || true
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
cat > server.properties <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$2
listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2
controller.listener.names=CONTROLLER
log.dirs=$folder/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
PROPERTIES
export CLASSPATH='jars/*'
java="timeout -k 10 300 java -Xmx512m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
$java kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ --config server.properties \
    --feature eligible.leader.replicas.version=0 > /dev/null
$java kafka.Kafka server.properties > broker.log 2>&1 &
broker=$!

timeout 100 venv/bin/python - "127.0.0.1:$1" > seen <<'PYTHON' || { cat seen; tail -n 20 broker.log >&2; exit 1; }
import socket
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

host, port = sys.argv[1].split(":")
while True:
    try:
        socket.create_connection((host, int(port))).close()
        break
    except ConnectionRefusedError:
        time.sleep(0.2)
servers = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin = AdminClient(servers)
admin.create_topics([NewTopic("orders", 1, 1, config={"min.insync.replicas": "2"})])["orders"].result(60)

topic = ConfigResource(ConfigResource.Type.TOPIC, "orders")
needed = admin.describe_configs([topic])[topic].result(30)["min.insync.replicas"].value
partition = admin.list_topics("orders", 30).topics["orders"].partitions[0]
print(f"replicas {len(partition.replicas)}, in sync {len(partition.isrs)}, min.insync.replicas {needed}")


def told(error, message):
    print(f"{message.value().decode()}: {error.name() if error else f'written at offset {message.offset()}'}")


for name, idempotent in (("acks=all", False), ("acks=all, idempotent", True)):
    producer = Producer({**servers, "acks": "all", "enable.idempotence": idempotent, "delivery.timeout.ms": 20_000})
    producer.produce("orders", name, on_delivery=told)
    producer.flush(30)

consumer = Consumer({**servers, "group.id": "readers"})
consumer.assign([TopicPartition("orders", 0, 0)])
print("read:", [message.value() for message in consumer.consume(2, 20)])
PYTHON
cat seen

cat > expected <<'EXPECTED'
replicas 1, in sync 1, min.insync.replicas 2
acks=all: written at offset 0
acks=all, idempotent: written at offset 1
read: [b'acks=all', b'acks=all, idempotent']
EXPECTED
cmp -s seen expected || { echo "CHANGED: min.insync.replicas no longer works in this way"; exit 1; }
echo "still so"
