import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * CountClicks BOOTSTRAP APPLICATION INSTANCE STATE_FOLDER: counts the clicks of each user, exactly once.
 *
 * <p>Reads users from the topic clicks and writes every new count of a user to the topic counts. The clicks are
 * repartitioned by user, and the counts are kept in a store with a changelog. Prints each change of its state.
 */
public class CountClicks {
    static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("clicks")
            .selectKey((key, user) -> user)
            .groupByKey()
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("by-user"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts");
        return builder.build();
    }

    static Properties settings(String bootstrap, String application, String instance, String folder) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // every new count is written
        settings.put("linger.ms", 0); // so that whoever is killed has written what it has not committed
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        settings.put(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, Long.MAX_VALUE); // tasks never move to warm up
        settings.put("group.instance.id", instance);
        settings.put("session.timeout.ms", 120_000); // longer than it takes an instance to come back
        settings.put("auto.offset.reset", "earliest");
        return settings;
    }

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = settings(arguments[0], arguments[1], arguments[2], arguments[3]);
        KafkaStreams streams = new KafkaStreams(topology(), settings);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((next, previous) -> {
            System.out.println(next);
            if (next == KafkaStreams.State.ERROR || next == KafkaStreams.State.NOT_RUNNING) ended.countDown();
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        ended.await();
    }
}
