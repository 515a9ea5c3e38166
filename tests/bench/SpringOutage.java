import java.math.BigInteger;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.annotation.DltHandler;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.retrytopic.RetryTopicConfigurationSupport;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * Asks a service about each record, with Spring Kafka's retry topics: redelivered after 1, 2, 4 and 8 seconds, then
 * dead-lettered. Arguments: bootstrap servers, topic, address of the service, partitions, seekAfterError.
 */
public class SpringOutage {
    static String bootstrap, address;
    static boolean seekAfterError;
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    @Configuration
    @EnableKafka
    public static class Application extends RetryTopicConfigurationSupport {
        @Override protected void configureCustomizers(CustomizersConfigurer customizers) {
            customizers.customizeErrorHandler(handler -> handler.setSeekAfterError(seekAfterError));
        }

        @Bean KafkaAdmin kafkaAdmin() {
            return new KafkaAdmin(Map.of("bootstrap.servers", bootstrap));
        }

        @Bean ProducerFactory<byte[], byte[]> producers() {
            return new DefaultKafkaProducerFactory<>(
                Map.of("bootstrap.servers", bootstrap), new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Bean("defaultRetryTopicKafkaTemplate") KafkaTemplate<byte[], byte[]> template() {
            return new KafkaTemplate<>(producers());
        }

        @Bean ConsumerFactory<byte[], byte[]> consumers() {
            return new DefaultKafkaConsumerFactory<>(
                Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", false),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        @Bean("kafkaListenerContainerFactory") ConcurrentKafkaListenerContainerFactory<byte[], byte[]> listeners() {
            var factory = new ConcurrentKafkaListenerContainerFactory<byte[], byte[]>();
            factory.setConsumerFactory(consumers());
            factory.setConcurrency(4);
            return factory;
        }

        @Bean TaskScheduler taskScheduler() {
            return new ThreadPoolTaskScheduler();
        }

        @Bean Listener listener() {
            return new Listener();
        }
    }

    public static class Listener {
        @RetryableTopic(attempts = "5", backOff = @BackOff(delay = 1000, multiplier = 2, maxDelay = 60000),
            numPartitions = "${outage.partitions}", replicationFactor = "1", autoStartDltHandler = "false",
            kafkaTemplate = "defaultRetryTopicKafkaTemplate")
        @KafkaListener(topics = "${outage.topic}", groupId = "${outage.topic}")
        public void handle(ConsumerRecord<byte[], byte[]> record) throws Exception {
            var attempt = record.headers().lastHeader("retry_topic-attempts");
            var path = new String(record.key(), StandardCharsets.UTF_8)
                + "/" + Integer.parseInt(new String(record.value(), 0, 10, StandardCharsets.US_ASCII))
                + "/" + (attempt == null ? 1 : new BigInteger(attempt.value()).intValue());
            var request = HttpRequest.newBuilder(URI.create("http://" + address + "/" + path)).build();
            var status = CLIENT.send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
            if (status != 200) {
                throw new IllegalStateException("the service answers " + status);
            }
        }

        @DltHandler
        public void dead(byte[] value) {
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        address = arguments[2];
        seekAfterError = Boolean.parseBoolean(arguments[4]);
        System.setProperty("outage.topic", arguments[1]);
        System.setProperty("outage.partitions", arguments[3]);
        new AnnotationConfigApplicationContext(Application.class);
        Thread.currentThread().join();
    }
}
