import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/**
 * The tests of Apache Kafka's Java client across two failovers, over the control port of Understudy.
 *
 * <pre>
 * understudy up --control 127.0.0.1:0 --dir /tmp/cluster      # in another terminal
 * UNDERSTUDY_RUN=/tmp/cluster mvn test
 * </pre>
 */
class FailoverTest {
    private final Control cluster = Control.ofRun();

    FailoverTest() throws Exception {}

    /** A fault that a test injects. */
    private interface Fault {
        void inject() throws Exception;
    }

    @Test
    void theProducerGoesOnWhenTheControllerIsKilled() throws Exception {
        goesOn("java-controller", () -> {
            int killed = cluster.controller();
            cluster.post("/verbs/kill", Map.of("target", "controller", "for", "3s"));
            cluster.waitForAnotherController(killed);
        });
    }

    @Test
    void theProducerGoesOnWhenItsLeaderIsKilled() throws Exception {
        goesOn("java-leader", () ->
                cluster.post("/verbs/kill", Map.of("target", "leader:java-leader/0", "for", "3s")));
    }

    /** Produces before and after a fault with one producer, and reads both records. */
    private void goesOn(String topic, Fault fault) throws Exception {
        cluster.waitForAllBrokers();
        cluster.post("/topics", Map.of("name", topic, "partitions", 1, "replication_factor", 3));
        Map<String, Object> settings = Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, cluster.bootstrap(),
                ProducerConfig.ACKS_CONFIG, "all",
                ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 60_000,
                ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 5_000);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, 0, null, "before")).get(90, TimeUnit.SECONDS);
            fault.inject();
            producer.send(new ProducerRecord<>(topic, 0, null, "after")).get(90, TimeUnit.SECONDS);
        }
        assertEquals(List.of("before", "after"), read(topic, 2));
    }

    /** Returns the values from the beginning of partition 0 of a topic. */
    private List<String> read(String topic, int count) throws Exception {
        Map<String, Object> settings = Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, cluster.bootstrap(),
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            Instant deadline = Instant.now().plus(Duration.ofMinutes(1));
            while (values.size() < count && Instant.now().isBefore(deadline)) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
        }
        return values;
    }
}
