#!/bin/sh
# Producer.produce_batch of confluent-kafka ignores the partition of a message, which its documentation says comes first.
#
# Versions: confluent-kafka 2.16.0 (with librdkafka 2.16.0), Apache Kafka 4.4.0.
# Good guess: help(Producer.produce_batch) says of the fields of a message "'partition' (int): Specific partition (optional,
#   overrides batch partition)", and has an example with it. So a message goes to its own partition, as with produce().
# Seen: six messages with one key, for a topic of three partitions:
#
#     asked for                          0 1 2 0 1 2
#     produce                            0 1 2 0 1 2
#     produce_batch                      1 1 1 1 1 1
#     produce_batch with partition=2     2 2 2 2 2 2
#
#   Each message goes to the partition of the call, or, if the call names none, to the one that its key chooses. No error is
#   raised, no message gets an '_error', and each delivery report is a success. The same text lists 'timestamp', which
#   raises NotImplementedError.
# For a user: records land in other partitions than the program chose, without an error. Make one call for each partition,
#   with its argument `partition`.
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
PROPERTIES
export CLASSPATH='jars/*'
java="timeout -k 10 300 java -Xmx512m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
$java kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ --config server.properties > /dev/null
$java kafka.Kafka server.properties > broker.log 2>&1 &
broker=$!

timeout 100 venv/bin/python - "127.0.0.1:$1" <<'PYTHON' || { tail -n 20 broker.log >&2; exit 1; }
import socket
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

host, port = sys.argv[1].split(":")
while True:
    try:
        socket.create_connection((host, int(port))).close()
        break
    except ConnectionRefusedError:
        time.sleep(0.2)
servers = {"bootstrap.servers": sys.argv[1]}
admin = AdminClient(servers)
admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(60)
producer = Producer(servers)
ASKED = [0, 1, 2, 0, 1, 2]


def messages():
    return [{"value": str(number), "key": "one key", "partition": each} for number, each in enumerate(ASKED)]


def partitions(name, produce):
    seen = {}
    errors = []

    def delivered(error, message):
        seen[int(message.value())] = message.partition()
        errors.extend([error] if error else [])

    produce(delivered)
    producer.flush(30)
    in_order = [partition for _, partition in sorted(seen.items())]
    print(f"{name}: partitions {in_order}, errors {errors}")
    return in_order if not errors else errors


def single(delivered):
    for each in messages():
        producer.produce("orders", **each, on_delivery=delivered)


def batch(**arguments):
    def produce(delivered):
        given = messages()
        queued = producer.produce_batch("orders", given, on_delivery=delivered, **arguments)
        print(f"queued {queued}, marked as failed: {sum('_error' in each for each in given)}")

    return produce


print("asked for:", ASKED)
one_by_one = partitions("produce", single)
by_key = partitions("produce_batch", batch())
by_call = partitions("produce_batch with partition=2", batch(partition=2))
try:
    producer.produce_batch("orders", [{"value": "1", "timestamp": 1_764_300_000_000}])
    refused = False
except NotImplementedError as error:
    print("produce_batch with timestamp:", error)
    refused = True
documented = "overrides batch partition" in Producer.produce_batch.__doc__ and "'timestamp' (int)" in Producer.produce_batch.__doc__
print("documented:", documented)
if not (one_by_one == ASKED and len(by_key) == 6 and len(set(by_key)) == 1 and by_call == [2] * 6 and refused and documented):
    raise SystemExit("CHANGED: produce_batch no longer ignores the partition of a message in this way")
print("still so")
PYTHON
