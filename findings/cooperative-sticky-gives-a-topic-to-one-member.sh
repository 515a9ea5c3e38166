#!/bin/sh
# Of two topics, cooperative-sticky gives each of two members one topic, whole.
#
# Versions: Apache Kafka 4.4.0, confluent-kafka 2.16.0 (with librdkafka 2.16.0).
# Good guess: two members of a group read the topics orders and retries, with two partitions each. A strategy that
#   spreads partitions evenly gives each member one partition of either topic, as range does.
# Seen: the second member that joins gets both partitions of one topic, and the first keeps both of the other:
#
#     range: [{'orders': 1, 'retries': 1}, {'orders': 1, 'retries': 1}]
#     cooperative-sticky: [{'orders': 2}, {'retries': 2}]
#
#   The strategy counts partitions, whatever their topic. It moves as few of them as it can, so it stays that way.
# For a user: if one topic has the load and the other has little, as a topic with retries, one of two processes works and
#   the other waits. More partitions than that make it less likely, not impossible. Look at the assignment, or use range.
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
$java kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ --config server.properties > /dev/null
$java kafka.Kafka server.properties > broker.log 2>&1 &
broker=$!

timeout 200 venv/bin/python - "127.0.0.1:$1" > seen <<'PYTHON' || { cat seen; tail -n 20 broker.log >&2; exit 1; }
import socket
import sys
import time
from collections import Counter

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

host, port = sys.argv[1].split(":")
while True:
    try:
        socket.create_connection((host, int(port))).close()
        break
    except ConnectionRefusedError:
        time.sleep(0.2)
servers = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin = AdminClient(servers)
topics = ["orders", "retries"]
for made in admin.create_topics([NewTopic(each, 2, 1) for each in topics]).values():
    made.result(60)


def poll_both(members, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for member in members:
            member.poll(0.1)


def settled(strategy):
    members = []
    for _ in range(2):
        settings = {"group.id": strategy, "partition.assignment.strategy": strategy}
        members.append(Consumer({**servers, **settings, "auto.offset.reset": "earliest"}))
        members[-1].subscribe(topics)
        end = time.monotonic() + 60
        while time.monotonic() < end and not all(member.assignment() for member in members):
            poll_both(members, 1)
        poll_both(members, 5)
    found = [dict(Counter(each.topic for each in member.assignment())) for member in members]
    for member in members:
        member.close()
    return sorted((dict(sorted(each.items())) for each in found), key=str)


for strategy in ("range", "cooperative-sticky"):
    print(f"{strategy}: {settled(strategy)}")
PYTHON
cat seen

cat > expected <<'EXPECTED'
range: [{'orders': 1, 'retries': 1}, {'orders': 1, 'retries': 1}]
cooperative-sticky: [{'orders': 2}, {'retries': 2}]
EXPECTED
cmp -s seen expected || { echo "CHANGED: the partitions are spread in another way"; exit 1; }
echo "still so"
