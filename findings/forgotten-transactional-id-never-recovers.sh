#!/bin/sh
# A producer whose transactional.id has expired while it was idle fails forever, and each error asks for an abort only.
#
# Versions: confluent-kafka 2.16.0 (with librdkafka 2.16.0), Apache Kafka 4.3.1.
# Good guess: librdkafka marks the error of the first transaction after the expiration as one that needs an abort
#   (KafkaError.txn_requires_abort), and not as fatal. So the application aborts that transaction, and the next one works.
# Seen: this holds if the transaction produces records before it sends offsets. If send_offsets_to_transaction comes
#   first, the transaction fails with INVALID_PRODUCER_ID_MAPPING, abort_transaction succeeds, and every later transaction
#   that sends its offsets first fails in the same way: the producer keeps its old producer id. A transaction that
#   produces first fails once more, and with its abort the producer recovers; so does a new Producer with the same id.
# For a user: a process that only sometimes has records to produce (a filter, a consumer with a dead-letter topic) can
#   stop for good after a quiet week, the default of transactional.id.expiration.ms, although it obeys each error. Close
#   the producer and make a new one when KafkaError.INVALID_PRODUCER_ID_MAPPING comes.
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
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
POM
timeout 600 mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars

set -- $(venv/bin/python -c 'if 1:
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
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
transactional.id.expiration.ms=5000
transaction.remove.expired.transaction.cleanup.interval.ms=1000
PROPERTIES
export CLASSPATH='jars/*'
java="timeout -k 10 300 java -Xmx512m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
$java kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ --config server.properties > /dev/null
$java kafka.Kafka server.properties > broker.log 2>&1 &
broker=$!

timeout 200 venv/bin/python - "127.0.0.1:$1" <<'PYTHON' || { tail -n 20 broker.log >&2; exit 1; }
import socket
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
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
for created in admin.create_topics([NewTopic("in", 1, 1), NewTopic("out", 1, 1)]).values():
    created.result(60)
consumer = Consumer({**servers, "group.id": "readers"})
group = consumer.consumer_group_metadata()


def records(producer):
    producer.produce("out", b"record")
    producer.flush(30)


def offsets(producer):
    producer.send_offsets_to_transaction([TopicPartition("in", 0, 1)], group, 30)


def new(name):
    producer = Producer({**servers, "transactional.id": name})
    producer.init_transactions(60)
    return producer


def attempt(producer, *steps):
    producer.begin_transaction()
    try:
        for step in steps:
            step(producer)
        producer.commit_transaction(30)
    except KafkaException as failed:
        error = failed.args[0]
        producer.abort_transaction(30)
        outcome = f"{error.name()}{', needs an abort' * error.txn_requires_abort()}{', fatal' * error.fatal()}"
    else:
        outcome = "committed"
    print(f"  {' and '.join(step.__name__ for step in steps)}: {outcome}")
    return outcome


first, second = new("first"), new("second")
print("before the ids expire")
seen = [attempt(first, offsets), attempt(second, offsets)]
time.sleep(15)
print("one producer after its id has expired")
for _ in range(5):
    seen.append(attempt(first, offsets))
    time.sleep(1)
print("a new producer with the same id")
seen.append(attempt(new("first"), offsets))
print("another producer after its id has expired")
seen += [attempt(second, *steps) for steps in ([offsets], [records, offsets], [records, offsets], [offsets])]
forgotten = "INVALID_PRODUCER_ID_MAPPING, needs an abort"
if seen != ["committed"] * 2 + [forgotten] * 5 + ["committed"] + [forgotten] * 2 + ["committed"] * 2:
    raise SystemExit("CHANGED: a producer with an expired transactional.id no longer fails in this way")
print("still so")
PYTHON
