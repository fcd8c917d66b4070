// Kafka's own client of Java; see README.md.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Stranger {
    static final long WAIT_MS = 60_000;

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String base64(byte[] data) {
        return data == null ? "null" : '"' + Base64.getEncoder().encodeToString(data) + '"';
    }

    static Properties properties(String bootstrap) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        return made;
    }

    static void create(String[] a) throws Exception {
        try (Admin admin = Admin.create(properties(a[1]))) {
            NewTopic topic = new NewTopic(a[2], Optional.of(Integer.parseInt(a[3])), Optional.empty());
            admin.createTopics(List.of(topic.configs(Map.of("diskless.enable", "true")))).all().get();
        }
    }

    static void delete(String[] a) throws Exception {
        try (Admin admin = Admin.create(properties(a[1]))) {
            admin.deleteTopics(List.of(a[2])).all().get();
        }
    }

    static void produce(String[] a) throws Exception {
        Properties given = properties(a[1]);
        given.put("compression.type", a[5]);
        given.put("enable.idempotence", a[6].equals("1") ? "true" : "false");
        given.put("key.serializer", ByteArraySerializer.class.getName());
        given.put("value.serializer", ByteArraySerializer.class.getName());
        int partitions = Integer.parseInt(a[3]);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(given)) {
            for (int n = 0; n < Integer.parseInt(a[4]); n++) {
                byte[] key = n % 5 == 0 ? null : bytes("key-" + n % 7);
                List<Header> headers = n % 3 != 0 ? List.of()
                    : List.of(new RecordHeader("name", new byte[] {0, (byte) 0xff}), new RecordHeader("other", bytes("again")));
                sent.add(producer.send(new ProducerRecord<>(a[2], n % partitions, Long.parseLong(a[7]) + n, key, bytes("value-" + n), headers)));
            }
            for (int n = 0; n < sent.size(); n++) {
                RecordMetadata known = sent.get(n).get();
                System.out.printf("{\"number\": %d, \"partition\": %d, \"offset\": %d}%n", n, known.partition(), known.offset());
            }
        }
    }

    static void consume(String[] a) {
        Properties given = properties(a[1]);
        given.put("group.id", a[4]);
        given.put("group.protocol", System.getenv().getOrDefault("STRANGER_GROUP_PROTOCOL", "classic"));
        given.put("auto.offset.reset", "earliest");
        given.put("enable.auto.commit", "false");
        given.put("max.poll.records", "50");
        given.put("key.deserializer", ByteArrayDeserializer.class.getName());
        given.put("value.deserializer", ByteArrayDeserializer.class.getName());
        int wanted = Integer.parseInt(a[3]), seen = 0;
        long end = System.currentTimeMillis() + WAIT_MS;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(given)) {
            consumer.subscribe(List.of(a[2]));
            while (seen < wanted) {
                if (System.currentTimeMillis() > end) {
                    System.exit(1);
                }
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(200))) {
                    List<String> headers = new ArrayList<>();
                    for (Header header : one.headers()) {
                        headers.add("[\"" + header.key() + "\", " + base64(header.value()) + "]");
                    }
                    System.out.printf(
                        "{\"partition\": %d, \"offset\": %d, \"key\": %s, \"value\": \"%s\", \"headers\": %s, \"timestamp\": %d}%n",
                        one.partition(), one.offset(), base64(one.key()), new String(one.value(), StandardCharsets.UTF_8), headers, one.timestamp());
                    seen++;
                }
            }
            consumer.commitSync();
        }
    }

    static void seek(String[] a) {
        Properties given = properties(a[1]);
        given.put("key.deserializer", ByteArrayDeserializer.class.getName());
        given.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(given)) {
            Map<TopicPartition, Long> asked = new HashMap<>();
            for (PartitionInfo one : consumer.partitionsFor(a[2])) {
                asked.put(new TopicPartition(one.topic(), one.partition()), Long.parseLong(a[3]));
            }
            for (Map.Entry<TopicPartition, OffsetAndTimestamp> found : consumer.offsetsForTimes(asked).entrySet()) {
                long offset = found.getValue() == null ? -1 : found.getValue().offset();
                System.out.printf("{\"partition\": %d, \"offset\": %d}%n", found.getKey().partition(), offset);
            }
        }
    }

    public static void main(String[] a) throws Exception {
        switch (a[0]) {
            case "create" -> create(a);
            case "delete" -> delete(a);
            case "write" -> Endless.write(a);
            case "follow" -> Endless.follow(a);
            case "produce" -> produce(a);
            case "consume" -> consume(a);
            case "seek" -> seek(a);
            default -> System.exit(3);
        }
    }
}
