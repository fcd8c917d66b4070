// The words of runs under faults, which end with SIGTERM; see README.md.

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

class Endless {
    static volatile boolean isOver = false;

    static void endBySigterm() {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isOver = true;
            try {
                main.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    static void say(String fields) {
        System.out.println("{\"at\": " + System.currentTimeMillis() / 1000.0 + ", " + fields + "}");
    }

    static String quoted(Object text) {
        return '"' + String.valueOf(text).replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
    }

    static Properties properties(String bootstrap) {
        Properties made = Stranger.properties(bootstrap);
        made.put("client.id", System.getenv("STRANGER_CLIENT_ID"));
        return made;
    }

    static void write(String[] a) throws Exception {
        endBySigterm();
        Properties given = properties(a[1]);
        given.put("enable.idempotence", "true");
        given.put("linger.ms", "5");
        given.put("request.timeout.ms", "10000");
        given.put("delivery.timeout.ms", "600000");
        given.put("max.block.ms", "600000");
        given.put("key.serializer", StringSerializer.class.getName());
        given.put("value.serializer", StringSerializer.class.getName());
        int partitions = Integer.parseInt(a[3]), sent = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(given)) {
            while (!isOver) {
                int number = sent++;
                producer.send(new ProducerRecord<>(a[2], number % partitions, null, a[4] + " " + number), (known, error) -> {
                    if (error != null) {
                        say("\"number\": " + number + ", \"error\": " + quoted(error));
                    } else {
                        say("\"number\": " + number + ", \"partition\": " + known.partition() + ", \"offset\": " + known.offset());
                    }
                });
                Thread.sleep(1000 / Integer.parseInt(a[5]));
            }
        }
        say("\"sent\": " + sent);
    }

    static void follow(String[] a) {
        endBySigterm();
        Properties given = properties(a[1]);
        String protocol = System.getenv().getOrDefault("STRANGER_GROUP_PROTOCOL", "classic");
        given.put("group.id", a[3]);
        given.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            given.put("session.timeout.ms", "10000");
        }
        given.put("auto.offset.reset", "earliest");
        given.put("enable.auto.commit", "false");
        given.put("key.deserializer", StringDeserializer.class.getName());
        given.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(given)) {
            new Member(consumer, a[2]).run();
        }
    }

    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final String topic;
        final Map<Integer, Long> next = new TreeMap<>();

        Member(KafkaConsumer<String, String> consumer, String topic) {
            this.consumer = consumer;
            this.topic = topic;
        }

        void run() {
            consumer.subscribe(List.of(topic), this);
            long committed = System.nanoTime();
            while (!isOver) {
                try {
                    for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(200))) {
                        say("\"partition\": " + one.partition() + ", \"offset\": " + one.offset() + ", \"value\": " + quoted(one.value()));
                        next.put(one.partition(), one.offset() + 1);
                    }
                } catch (KafkaException error) {
                    say("\"error\": " + quoted(error));
                }
                if (System.nanoTime() > committed + 1_000_000_000L) {
                    commit();
                    committed = System.nanoTime();
                }
            }
            commit();
        }

        void commit() {
            if (next.isEmpty()) {
                return;
            }
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            StringBuilder text = new StringBuilder();
            next.forEach((partition, offset) -> {
                offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset));
                text.append(text.length() == 0 ? "" : ", ").append('"').append(partition).append("\": ").append(offset);
            });
            say("\"committing\": {" + text + "}");
            try {
                consumer.commitSync(offsets);
                say("\"committed\": {" + text + "}");
            } catch (KafkaException error) {
                say("\"not_committed\": " + quoted(error));
            }
        }

        static List<Integer> numbers(Collection<TopicPartition> partitions) {
            return partitions.stream().map(TopicPartition::partition).toList();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("\"assigned\": " + numbers(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            onPartitionsLost(partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            next.keySet().removeAll(numbers(partitions));
            say("\"revoked\": " + numbers(partitions));
        }
    }
}
