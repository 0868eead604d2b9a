/*
 * Drives Apache Kafka's Java client as ../README.md says: an admin client, a producer and a consumer, held open until
 * standard input is closed.
 *
 * With the jars of org.apache.kafka:kafka-clients:3.9.1 and of what it needs in libs/:
 *   javac -cp 'libs/*' DriveJava.java
 *   java -cp 'libs/*:.' DriveJava localhost:9092 orders
 */

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class DriveJava {
    static final long SEND_EVERY_MS = 50;
    static final long CREATE_EVERY_MS = 1_000;
    static final int CREATE_TIMEOUT_MS = 5_000;
    static final long READ_TO_THE_END_MS = 10_000;

    final String topic;
    final Admin admin;
    final KafkaProducer<String, String> producer;
    final KafkaConsumer<String, String> consumer;
    volatile boolean stopping = false;
    volatile boolean hasReadAll = false;
    volatile long lastSent = -1;
    volatile long lastRead = -1;

    DriveJava(String bootstrap, String topic) {
        this.topic = topic;
        admin = Admin.create(Map.of(
            "bootstrap.servers", bootstrap,
            "request.timeout.ms", CREATE_TIMEOUT_MS,
            "default.api.timeout.ms", CREATE_TIMEOUT_MS));
        producer = new KafkaProducer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "acks", "all",
                "enable.idempotence", true,
                "delivery.timeout.ms", 60_000),
            new StringSerializer(), new StringSerializer());
        consumer = new KafkaConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false, "auto.offset.reset", "earliest"),
            new StringDeserializer(), new StringDeserializer());
    }

    static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    void run() throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(List.of(partition));
        consumer.seekToBeginning(List.of(partition));
        print("{\"event\":\"ready\",\"client\":\"Apache Kafka's Java client\",\"version\":\""
            + AppInfoParser.getVersion() + "\"}");
        Thread producing = new Thread(this::produce);
        Thread creating = new Thread(this::createTopics);
        Thread reading = new Thread(this::read);
        creating.setDaemon(true);
        for (Thread thread : List.of(producing, creating, reading)) {
            thread.start();
        }
        while (System.in.read() >= 0) {
        }
        stopping = true;
        producing.join();
        producer.close(Duration.ofSeconds(60));
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(READ_TO_THE_END_MS);
        while (lastRead < lastSent && System.nanoTime() < deadline) {
            Thread.sleep(50);
        }
        hasReadAll = true;
        reading.join();
        consumer.close();
        creating.join(CREATE_TIMEOUT_MS + CREATE_EVERY_MS);
        admin.close(Duration.ofSeconds(5));
        print("{\"event\":\"end\"}");
    }

    void produce() {
        for (int value = 0; !stopping; value++) {
            int sending = value;
            try {
                producer.send(
                    new ProducerRecord<>(topic, 0, null, Integer.toString(sending)),
                    (metadata, error) -> sent(sending, metadata, error));
            } catch (KafkaException error) {
                sent(sending, null, error);
            }
            pause(SEND_EVERY_MS);
        }
    }

    void sent(int value, RecordMetadata metadata, Exception error) {
        if (error != null) {
            print("{\"event\":\"failed\",\"value\":" + value + ",\"error\":\"" + nameOf(error) + "\"}");
            return;
        }
        lastSent = Math.max(lastSent, metadata.offset());
        print("{\"event\":\"sent\",\"value\":" + value + ",\"offset\":" + metadata.offset() + "}");
    }

    void read() {
        while (!hasReadAll) {
            consumer.poll(Duration.ofMillis(200)).forEach(record -> {
                lastRead = record.offset();
                print("{\"event\":\"read\",\"value\":" + record.value() + ",\"offset\":" + record.offset() + "}");
            });
        }
    }

    void createTopics() {
        for (int number = 0; !stopping; number++) {
            pause(CREATE_EVERY_MS);
            long begun = System.nanoTime();
            String error = null;
            try {
                NewTopic creation = new NewTopic(topic + "-admin-" + number, 1, (short) 1);
                admin.createTopics(List.of(creation)).all().get(CREATE_TIMEOUT_MS + 1_000, TimeUnit.MILLISECONDS);
            } catch (ExecutionException failed) {
                error = nameOf(failed.getCause());
            } catch (Exception failed) {
                error = nameOf(failed);
            }
            long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
            print("{\"event\":\"admin\",\"ok\":" + (error == null) + ",\"error\":"
                + (error == null ? "null" : "\"" + error + "\"") + ",\"took_ms\":" + tookMs + "}");
        }
    }

    static String nameOf(Throwable error) {
        return error.getClass().getSimpleName();
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws Exception {
        new DriveJava(arguments[0], arguments[1]).run();
        System.exit(0);
    }
}
