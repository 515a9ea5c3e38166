#!/bin/sh
# A share group archives rejected records although their dead letters cannot be written, and no client gets an error.
#
# Versions: Apache Kafka 4.4.0 (KIP-1191).
# Good guess: a group gives up a record when its dead letter is written. If that fails, the group gets the record again, or
#   the acknowledgement fails, or a topic that cannot have the letters is refused as errors.deadletterqueue.topic.name.
# Seen: five groups reject two records each, and accept a later one. Each has a topic for its letters, which is enabled. All
#   but the third ask for copies of the records:
#
#     dlq.plain: got [a, null, later], errors [], letters 2
#     dlq.compacted: got [a, b, later], errors [], letters 2
#     dlq.compacted.bare: got [a, b, later], errors [], letters 0
#     dlq.compacted.mixed: got [a, null, later], errors [], letters 0
#     letters: got [a, null, later], errors [], letters 0
#
#   A compacted topic takes no letter without a key. Letters that are no copies have none, which is the default. A copy of a
#   record without a key takes with it the letters of the records that were rejected together with it. A topic whose name
#   lacks errors.deadletterqueue.topic.name.prefix (`dlq.`) gets no letters, though the setting of the group is accepted. Only
#   the log of the broker says "Failed to write to DLQ, proceeding to ARCHIVED regardless."
# For a user: records are lost that were meant to be kept. Do not compact the topic, begin its name with the prefix, and
#   have an alert on that line of the log.
#
# Needs: python3, a JDK of version 17 or newer, mvn, timeout. Only loopback is used. It exits with 0 if all this is still so.
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
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
PROPERTIES
export CLASSPATH='jars/*'
java="timeout -k 10 300 java -Xmx512m -XX:TieredStopAtLevel=1"
$java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn kafka.tools.StorageTool format --cluster-id=AAAAAAAAAAAAAAAAAAAAAQ \
    --config server.properties > /dev/null
$java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn kafka.Kafka server.properties > broker.log 2>&1 &
broker=$!

cat > Rejected.java <<'JAVA'
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

record Rejected(String servers, Admin admin, String letters, String policy, boolean copies, List<String> keys)
        implements Callable<String> {
    String source() {
        return "source.of." + letters;
    }

    void prepare() throws Exception {
        var enabled = Map.of("cleanup.policy", policy, "errors.deadletterqueue.group.enable", "true");
        admin.createTopics(List.of(new NewTopic(source(), 1, (short) 1), new NewTopic(letters, 1, (short) 1).configs(enabled)))
                .all().get();
        var settings = Map.of("share.auto.offset.reset", "earliest", "errors.deadletterqueue.topic.name", letters,
                "errors.deadletterqueue.copy.record.enable", String.valueOf(copies));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, source()), settings.entrySet().stream()
                .map(each -> new AlterConfigOp(new ConfigEntry(each.getKey(), each.getValue()), AlterConfigOp.OpType.SET))
                .toList())).all().get();
        send(keys);
    }

    void send(List<String> keys) {
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers, "linger.ms", "1000"),
                new StringSerializer(), new StringSerializer())) {
            for (String key : keys) producer.send(new ProducerRecord<>(source(), key, "value"));
        }
    }

    public String call() throws Exception {
        var got = new ArrayList<String>();
        var errors = new ArrayList<Object>();
        try (var consumer = new KafkaShareConsumer<>(Map.of("bootstrap.servers", servers, "group.id", source(),
                "share.acknowledgement.mode", "explicit"), new StringDeserializer(), new StringDeserializer())) {
            consumer.setAcknowledgementCommitCallback((offsets, error) -> { if (error != null) errors.add(error); });
            consumer.subscribe(List.of(source()));
            for (int turn = 0; turn < 120 && !got.contains("later"); turn++) {
                for (var each : consumer.poll(Duration.ofMillis(500))) {
                    consumer.acknowledge(each, "later".equals(each.key()) ? AcknowledgeType.ACCEPT : AcknowledgeType.REJECT);
                    got.add(each.key());
                }
                for (var error : consumer.commitSync().values()) error.ifPresent(errors::add);
                if (got.size() == keys.size()) send(List.of("later"));
            }
        }
        var partition = new TopicPartition(letters, 0);
        long written = 0;
        for (int turn = 0; turn < 20 && written < keys.size(); turn++) {
            Thread.sleep(500);
            written = admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset();
        }
        return letters + ": got " + got + ", errors " + errors + ", letters " + written;
    }

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        try (var admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            var groups = List.of(
                    new Rejected(servers, admin, "dlq.plain", "delete", true, Arrays.asList("a", null)),
                    new Rejected(servers, admin, "dlq.compacted", "compact", true, List.of("a", "b")),
                    new Rejected(servers, admin, "dlq.compacted.bare", "compact", false, List.of("a", "b")),
                    new Rejected(servers, admin, "dlq.compacted.mixed", "compact", true, Arrays.asList("a", null)),
                    new Rejected(servers, admin, "letters", "delete", true, Arrays.asList("a", null)));
            for (var each : groups) each.prepare();
            var threads = Executors.newFixedThreadPool(groups.size());
            for (var each : threads.invokeAll(groups)) System.out.println(each.get());
            threads.shutdown();
        }
    }
}
JAVA
timeout 200 $java -Dorg.slf4j.simpleLogger.defaultLogLevel=error Rejected.java "127.0.0.1:$1" > seen || {
    cat seen
    tail -n 20 broker.log >&2
    exit 1
}
cat seen

cat > expected <<'EXPECTED'
dlq.plain: got [a, null, later], errors [], letters 2
dlq.compacted: got [a, b, later], errors [], letters 2
dlq.compacted.bare: got [a, b, later], errors [], letters 0
dlq.compacted.mixed: got [a, null, later], errors [], letters 0
letters: got [a, null, later], errors [], letters 0
EXPECTED
if cmp -s seen expected && [ "$(grep -c 'Failed to write to DLQ, proceeding to ARCHIVED regardless' broker.log)" = 3 ]; then
    echo "still so"
else
    grep DLQ broker.log | tail -n 20
    echo "CHANGED: a share group no longer loses dead letters in this way"
    exit 1
fi
