// A word count of Kafka Streams, at least once, until it is ended: WordCount BOOTSTRAP APPLICATION INPUT OUTPUT STATE_FOLDER

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class WordCount {
    public static void main(String[] a) throws Exception {
        Properties given = new Properties();
        given.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, a[0]);
        given.put(StreamsConfig.APPLICATION_ID_CONFIG, a[1]);
        given.put(StreamsConfig.STATE_DIR_CONFIG, a[4]);
        given.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        given.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        given.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        given.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(a[2], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(a[3], Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), given);
        CountDownLatch isOver = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(30));
            isOver.countDown();
        }));
        streams.start();
        isOver.await();
    }
}
