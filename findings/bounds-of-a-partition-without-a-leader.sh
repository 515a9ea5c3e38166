#!/bin/sh
# A consumer that is asked for the offsets of a partition without a leader says at once that it does not know the partition.
#
# Versions: confluent-kafka 2.16.0 (with librdkafka 2.16.0), Apache Kafka 4.4.0.
# Good guess: get_watermark_offsets of a partition that has lost its leader waits for one, up to its timeout of ten
#   seconds, and then fails with a timeout or with LEADER_NOT_AVAILABLE, as its metadata does.
# Seen: a broker with two disks, of which one is lost. The topic has two partitions, of which one is on the lost disk:
#
#     metadata: 2 partitions, of the lost one: LEADER_NOT_AVAILABLE
#     the other one: (0, 1)
#     the lost one, with a timeout of 10 s: _UNKNOWN_PARTITION within a second
#
#   A partition that does not exist has the same error, and only the metadata tells one from the other.
# For a user: the error does not mean that the partition is gone, and to repeat the call at once is no wait. Ask for the
#   metadata of the topic, and try again later. The client reads and commits the other partitions meanwhile.
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
log.dirs=$folder/first,$folder/second
offsets.topic.num.partitions=1
PROPERTIES
$java kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ --config broker.properties > /dev/null

start() {
    $java kafka.Kafka broker.properties > broker.log 2>&1 &
    broker=$!
}

start
timeout 180 venv/bin/python - "$servers" <<'PYTHON' || { tail -n 20 broker.log >&2; exit 1; }
import sys
import time

from confluent_kafka import KafkaException, Producer
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
admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(60)
producer = Producer(settings)
for number in range(2):
    producer.produce("orders", b"1", partition=number)
if producer.flush(60):
    sys.exit("the records were not written")
PYTHON
kill "$broker" && wait "$broker" || true
broker=
# A broker puts a new partition on the disk that has fewer.
number=0
[ -d second/orders-0 ] || number=1
[ -d second/orders-$number ] && [ ! -d first/orders-$number ] || { echo "both partitions are on one disk" >&2; exit 1; }
mv second away && : > second
start

timeout 180 venv/bin/python - "$servers" "$number" > seen <<'PYTHON' || { cat seen; tail -n 20 broker.log >&2; exit 1; }
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

lost = int(sys.argv[2])
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "finding", "log_level": 0})
end = time.monotonic() + 90
while True:
    try:
        partitions = consumer.list_topics("orders", 5).topics["orders"].partitions
        if len(partitions) == 2 and partitions[1 - lost].error is None:
            break
    except KafkaException:
        pass
    if time.monotonic() > end:
        sys.exit("there is no broker")
    time.sleep(0.5)
error = partitions[lost].error
print(f"metadata: {len(partitions)} partitions, of the lost one: {error and error.name()}")
print(f"the other one: {consumer.get_watermark_offsets(TopicPartition('orders', 1 - lost), 10)}")
began = time.monotonic()
try:
    found = consumer.get_watermark_offsets(TopicPartition("orders", lost), 10)
except KafkaException as raised:
    found = raised.args[0].name()
within = "within a second" if time.monotonic() - began < 1 else f"after {time.monotonic() - began:.0f} s"
print(f"the lost one, with a timeout of 10 s: {found} {within}")
consumer.close()
PYTHON
cat seen
cat > expected <<'SEEN'
metadata: 2 partitions, of the lost one: LEADER_NOT_AVAILABLE
the other one: (0, 1)
the lost one, with a timeout of 10 s: _UNKNOWN_PARTITION within a second
SEEN
diff expected seen
