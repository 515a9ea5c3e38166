import java.nio.file.Files;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Writes dead letters as Kafka Streams does (KIP-1034): values that are no integer, and integers below zero. */
public class StreamsDeadLetters {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "totals");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams").toString());
        settings.put("auto.offset.reset", "earliest");
        settings.put(StreamsConfig.ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG, "totals-dlq");
        settings.put(StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueExceptionHandler.class);
        settings.put(
            StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueProcessingExceptionHandler.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("amounts", Consumed.with(Serdes.ByteArray(), Serdes.Integer()))
            .mapValues(amount -> {
                if (amount < 0) {
                    throw new IllegalStateException("an amount below zero: " + amount);
                }
                return amount;
            })
            .to("totals", Produced.with(Serdes.ByteArray(), Serdes.Integer()));
        new KafkaStreams(builder.build(), settings).start();
        Thread.currentThread().join();
    }
}
