import java.net.ConnectException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.IntegerDeserializer;
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
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.retrytopic.RetryTopicConfigurationSupport;
import org.springframework.kafka.support.serializer.ErrorHandlingDeserializer;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.backoff.FixedBackOff;

/**
 * Writes dead letters as Spring Kafka does: orders-dlt by the blocking error handler, numbers-dlt for values that
 * cannot be deserialised, payments-dlt by retry topics.
 */
public class SpringDeadLetters {
    static String bootstrap;

    static void fail(byte[] value) {
        switch (value == null ? "null" : new String(value, StandardCharsets.UTF_8)) {
            case "cause" -> throw new IllegalStateException("cannot pay", new ConnectException("refused by 10.0.0.7:5432"));
            case "no message" -> throw new IllegalArgumentException();
            case "umlaut" -> throw new IllegalStateException("Größe fehlt");
            default -> throw new IllegalStateException("the bank is down for 7");
        }
    }

    @Configuration
    @EnableKafka
    public static class Application extends RetryTopicConfigurationSupport {
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

        static <V> ConsumerFactory<byte[], V> consumers(Deserializer<V> values) {
            Map<String, Object> settings = new HashMap<>(
                Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", false));
            return new DefaultKafkaConsumerFactory<>(settings, new ByteArrayDeserializer(), values);
        }

        @Bean("kafkaListenerContainerFactory") ConcurrentKafkaListenerContainerFactory<byte[], byte[]> plain() {
            var factory = new ConcurrentKafkaListenerContainerFactory<byte[], byte[]>();
            factory.setConsumerFactory(consumers(new ByteArrayDeserializer()));
            return factory;
        }

        @Bean ConcurrentKafkaListenerContainerFactory<byte[], byte[]> blocking() {
            var factory = new ConcurrentKafkaListenerContainerFactory<byte[], byte[]>();
            factory.setConsumerFactory(consumers(new ByteArrayDeserializer()));
            factory.setCommonErrorHandler(
                new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template()), new FixedBackOff(0, 2)));
            return factory;
        }

        @Bean ConcurrentKafkaListenerContainerFactory<byte[], Integer> typed() {
            var factory = new ConcurrentKafkaListenerContainerFactory<byte[], Integer>();
            factory.setConsumerFactory(consumers(new ErrorHandlingDeserializer<>(new IntegerDeserializer())));
            factory.setCommonErrorHandler(
                new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template()), new FixedBackOff(0, 0)));
            return factory;
        }

        @Bean TaskScheduler taskScheduler() {
            return new ThreadPoolTaskScheduler();
        }

        @Bean Listeners listeners() {
            return new Listeners();
        }
    }

    public static class Listeners {
        @KafkaListener(topics = "orders", groupId = "billing", containerFactory = "blocking")
        public void order(ConsumerRecord<byte[], byte[]> record) {
            fail(record.value());
        }

        @KafkaListener(topics = "numbers", groupId = "counting", containerFactory = "typed")
        public void number(ConsumerRecord<byte[], Integer> record) {
        }

        @RetryableTopic(attempts = "3", backOff = @BackOff(delay = 50), numPartitions = "3", replicationFactor = "1",
            autoStartDltHandler = "false", kafkaTemplate = "defaultRetryTopicKafkaTemplate")
        @KafkaListener(topics = "payments", groupId = "paying")
        public void payment(ConsumerRecord<byte[], byte[]> record) {
            fail(record.value());
        }

        @DltHandler
        public void dead(byte[] value) {
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        new AnnotationConfigApplicationContext(Application.class);
        Thread.currentThread().join();
    }
}
