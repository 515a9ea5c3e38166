#!/bin/sh
# An AdminClient goes on asking the broker that was the controller when it connected, also when that broker is gone.
#
# Versions: confluent-kafka 2.16.0 (with librdkafka 2.16.0), Apache Kafka 4.4.0.
# Good guess: requests such as describe_topics go to the controller, and with KRaft any broker passes them on. When a
#   broker is lost, the client notices the end of its connection, asks another broker who the controller is, and goes on
#   after some seconds, as a consumer or producer does.
# Seen: three brokers, twelve clients that have had an answer, then one broker is killed. When Kafka itself has left it
#   out, a part of the clients, about a third, has no answer for a minute, while a client that is opened then has one:
#
#     before: 12 of 12 clients have an answer
#     60 s without one broker: some clients have no answer: _TIMED_OUT
#     a new client: answered
#     list_topics of those without an answer, then describe_topics: answered
#
#   The text is mostly "Timed out waiting for controller". KRaft brokers name a random broker as the controller. A client
#   asks for it when it connects, and has no topics for which it would ask again.
# For a user: a process with a long-lived AdminClient is blind for as long as one of several brokers is away, though all
#   partitions have leaders. Open another client after a timeout, or call list_topics for a topic, which asks anew.
#
# Needs: python3 with venv, a Java of version 17 or newer, mvn, timeout. Only loopback is used. It exits with 0 if all
# this is still so.
set -eu

folder=$(mktemp -d)
brokers=
end() {
    [ -z "$brokers" ] || { kill $brokers && wait; } 2>/dev/null || true
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
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    print(*(each.getsockname()[1] for each in sockets))')
controller=$4
servers=127.0.0.1:$1,127.0.0.1:$2,127.0.0.1:$3
export CLASSPATH='jars/*'
java="java -Xmx384m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
for node in 1 2 3; do
    roles=broker listeners=PLAINTEXT://127.0.0.1:$1
    if [ $node = 1 ]; then roles=broker,controller listeners=$listeners,CONTROLLER://127.0.0.1:$controller; fi
    cat > $node.properties <<PROPERTIES
process.roles=$roles
node.id=$node
controller.quorum.voters=1@127.0.0.1:$controller
listeners=$listeners
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/data$node
offsets.topic.num.partitions=1
PROPERTIES
    $java kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ --config $node.properties > /dev/null
    $java kafka.Kafka $node.properties > $node.log 2>&1 &
    last=$!
    brokers="$brokers $last"
    shift
done

timeout 300 venv/bin/python - "$servers" "$last" > seen <<'PYTHON' || { cat seen; tail -n 20 ./*.log >&2; exit 1; }
import os
import signal
import sys
import time

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

servers = {"bootstrap.servers": sys.argv[1], "log_level": 0}


def nodes():
    try:
        return len(AdminClient(servers).list_topics(timeout=10).brokers)
    except KafkaException:
        return 0


def wait_for(number):
    end = time.monotonic() + 90
    while nodes() != number:
        if time.monotonic() > end:
            sys.exit(f"there are not {number} brokers")
        time.sleep(0.5)


def asked(clients):
    """Return the error of each client that has no answer within four seconds."""
    answers = {each: each.describe_topics(TopicCollection(["orders"]), request_timeout=4)["orders"] for each in clients}
    errors = {}
    for client, answer in answers.items():
        try:
            answer.result(30)
        except KafkaException as error:
            errors[client] = error.args[0].name()
    return errors


wait_for(3)
admin = AdminClient(servers)
admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(60)
time.sleep(2)
clients = [AdminClient(servers) for _ in range(12)]
print(f"before: {len(clients) - len(asked(clients))} of {len(clients)} clients have an answer")

os.kill(int(sys.argv[2]), signal.SIGKILL)
wait_for(2)
lost = {each: "" for each in clients}
end = time.monotonic() + 60
while time.monotonic() < end:
    lost = asked(lost)
    time.sleep(1)
number = "no client has" if not lost else "all clients have" if len(lost) == len(clients) else "some clients have"
print(f"60 s without one broker: {number} no answer:", *sorted(set(lost.values())))
print("a new client:", *(set(asked([AdminClient(servers)]).values()) or ["answered"]))
for client in lost:
    client.list_topics("orders", 10)
print("list_topics of those without an answer, then describe_topics:", *(set(asked(lost).values()) or ["answered"]))
PYTHON
cat seen

cat > expected <<'EXPECTED'
before: 12 of 12 clients have an answer
60 s without one broker: some clients have no answer: _TIMED_OUT
a new client: answered
list_topics of those without an answer, then describe_topics: answered
EXPECTED
cmp -s seen expected || { echo "CHANGED: an AdminClient asks for the controller again"; exit 1; }
echo "still so"
