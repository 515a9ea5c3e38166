#!/bin/sh
# A STOMP reader of Apache Artemis gets a JMS MapMessage as a few bytes that look like a BytesMessage.
#
# Versions: Apache Artemis 2.40.0 (artemis-server, artemis-jms-client, artemis-stomp-protocol), STOMP 1.2.
# Good guess: a MapMessage has no form in STOMP, so Artemis answers with an error, or sends an empty body, or does as
#   ActiveMQ Classic, which sends the entries as JSON to a subscription with the header transformation:jms-map-json.
# Seen: a MESSAGE frame with the same header names as that of a BytesMessage. Its body is the start of Artemis' own
#   encoding of the map, read as a text that is as many bytes long as the map has entries: a map of four entries becomes
#   four bytes without any value in them, and a map of one entry becomes an empty body, as of an empty TextMessage. The
#   header transformation has no effect. An ACK removes the message.
# For a user: a STOMP reader cannot see that it loses the entries. Read a queue that can have MapMessages with a JMS or
#   AMQP client, or let the senders set a property of their own that tells the type.
#
# Needs: a JDK of version 17 or newer, mvn, timeout. Only loopback is used. It exits with 0 if all this is still so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

cat > pom.xml <<'POM'
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.activemq</groupId><artifactId>artemis-server</artifactId><version>2.40.0</version></dependency>
    <dependency><groupId>org.apache.activemq</groupId><artifactId>artemis-jms-client</artifactId><version>2.40.0</version></dependency>
    <dependency><groupId>org.apache.activemq</groupId><artifactId>artemis-stomp-protocol</artifactId><version>2.40.0</version></dependency>
  </dependencies>
</project>
POM
timeout 600 mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars

cat > MapOverStomp.java <<'JAVA'
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.TreeMap;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

class MapOverStomp {
    record Frame(TreeMap<String, String> headers, byte[] body) {
        @SuppressWarnings("deprecation")
        static Frame read(DataInputStream in) throws IOException {
            String line = in.readLine();
            while (line.isEmpty()) line = in.readLine();
            var headers = new TreeMap<String, String>();
            while (!(line = in.readLine()).isEmpty()) headers.put(line.split(":", 2)[0], line.split(":", 2)[1]);
            byte[] body = in.readNBytes(Integer.parseInt(headers.getOrDefault("content-length", "0")));
            if (in.read() != 0) throw new IOException("the body is not as long as its content-length");
            return new Frame(headers, body);
        }

        public String toString() {
            return headers.keySet() + " body of " + body.length + " bytes: " + HexFormat.ofDelimiter(" ").formatHex(body);
        }
    }

    static boolean stillSo(EmbeddedActiveMQ broker, int port) throws Exception {
        try (var factory = new ActiveMQConnectionFactory("tcp://127.0.0.1:" + port);
                var context = factory.createContext();
                var stomp = new Socket("127.0.0.1", port)) {
            var map = context.createMapMessage();
            map.setString("customer", "Ada");
            map.setString("city", "Paris");
            map.setInt("number", 7);
            map.setBoolean("paid", true);
            var single = context.createMapMessage();
            single.setString("customer", "Ada");
            var orders = context.createQueue("orders");
            context.createProducer().send(orders, new byte[] {1, 2, 3, 4}).send(orders, map).send(orders, single);

            stomp.setSoTimeout(30_000);
            var in = new DataInputStream(stomp.getInputStream());
            var out = stomp.getOutputStream();
            out.write("CONNECT\naccept-version:1.2\nhost:localhost\n\n\0".getBytes(StandardCharsets.UTF_8));
            Frame.read(in);
            out.write(("SUBSCRIBE\nid:1\ndestination:orders\nack:client-individual\n"
                    + "transformation:jms-map-json\n\n\0").getBytes(StandardCharsets.UTF_8));
            Frame ofBytes = Frame.read(in), ofMap = Frame.read(in), ofSingle = Frame.read(in);
            System.out.println("BytesMessage of 4 bytes   " + ofBytes);
            System.out.println("MapMessage of 4 entries   " + ofMap);
            System.out.println("MapMessage of 1 entry     " + ofSingle);

            var queue = broker.getActiveMQServer().locateQueue(SimpleString.of("orders"));
            long before = queue.getMessageCount();
            for (var each : new Frame[] {ofMap, ofSingle}) {
                out.write(("ACK\nid:" + each.headers.get("ack") + "\nreceipt:1\n\n\0").getBytes(StandardCharsets.UTF_8));
                Frame.read(in);
            }
            System.out.println("messages in the queue: " + before + ", after the ACK of both maps: " + queue.getMessageCount());

            String text = new String(ofMap.body, StandardCharsets.UTF_8);
            return ofMap.headers.keySet().equals(ofBytes.headers.keySet())
                    && ofMap.body.length == 4 && !text.contains("Ada") && !text.contains("Paris")
                    && ofSingle.body.length == 0 && before == 3 && queue.getMessageCount() == 1;
        }
    }

    public static void main(String[] arguments) throws Exception {
        int port;
        try (var free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = free.getLocalPort();
        }
        var configuration = new ConfigurationImpl().setPersistenceEnabled(false).setSecurityEnabled(false)
                .addAcceptorConfiguration("all", "tcp://127.0.0.1:" + port + "?protocols=CORE,STOMP")
                .addQueueConfiguration(QueueConfiguration.of("orders").setRoutingType(RoutingType.ANYCAST));
        var broker = new EmbeddedActiveMQ().setConfiguration(configuration);
        broker.start();
        boolean still;
        try {
            still = stillSo(broker, port);
        } finally {
            broker.stop();
        }
        System.out.println(still ? "still so" : "CHANGED: Artemis no longer shows a MapMessage in this way");
        System.exit(still ? 0 : 1);
    }
}
JAVA
timeout 120 java -Xmx256m -XX:TieredStopAtLevel=1 -Dslf4j.internal.verbosity=ERROR -cp 'jars/*' MapOverStomp.java
