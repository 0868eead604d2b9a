import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.lifecycle.Startables;
import org.testcontainers.utility.DockerImageName;

/**
 * Understudy as a substitute for Kafka's images in Testcontainers: each class of the module with one broker, and three
 * brokers of which the controller is killed.
 *
 * <pre>
 * docker tag understudy understudy:7.9.0
 * UNDERSTUDY_IMAGE=understudy:7.9.0 mvn test
 * </pre>
 */
class FailoverTest {
    private static final DockerImageName IMAGE =
            DockerImageName.parse(System.getenv().getOrDefault("UNDERSTUDY_IMAGE", "understudy:7.9.0"));
    private static final DockerImageName APACHE = IMAGE.asCompatibleSubstituteFor("apache/kafka");
    private static final DockerImageName CONFLUENT = IMAGE.asCompatibleSubstituteFor("confluentinc/cp-kafka");

    @Test
    void theContainerOfApacheKafkasImage() throws Exception {
        try (var kafka = new KafkaContainer(APACHE)) {
            kafka.start();
            goesOn(kafka.getBootstrapServers(), 1, () -> {});
        }
    }

    @Test
    void theContainerOfApacheKafkasImageWithAListenerForOtherContainers() throws Exception {
        try (var network = Network.newNetwork();
                var kafka = new KafkaContainer(APACHE).withNetwork(network).withListener("kafka:19092")) {
            kafka.start();
            goesOn(kafka.getBootstrapServers(), 1, () -> {});
            var listed = kafka.execInContainer(
                    "/opt/kafka/bin/kafka-topics.sh", "--bootstrap-server", "kafka:19092", "--list");
            assertEquals("orders", listed.getStdout().lines().filter("orders"::equals).findFirst().orElse(listed.toString()));
        }
    }

    @Test
    void theContainerOfConfluentsImage() throws Exception {
        try (var kafka = new ConfluentKafkaContainer(CONFLUENT)) {
            kafka.start();
            goesOn(kafka.getBootstrapServers(), 1, () -> {});
        }
    }

    @Test
    @SuppressWarnings("deprecation")
    void theOlderContainerWithItsOwnZooKeeper() throws Exception {
        try (var kafka = new org.testcontainers.containers.KafkaContainer(CONFLUENT)) {
            kafka.start();
            goesOn(kafka.getBootstrapServers(), 1, () -> {});
        }
    }

    @Test
    @SuppressWarnings("deprecation")
    void theOlderContainerWithKraft() throws Exception {
        try (var kafka = new org.testcontainers.containers.KafkaContainer(CONFLUENT).withKraft()) {
            kafka.start();
            goesOn(kafka.getBootstrapServers(), 1, () -> {});
        }
    }

    @Test
    void threeContainersGoOnWhenTheControllerIsKilled() throws Exception {
        var brokers = new TreeMap<Integer, KafkaContainer>();
        try (var network = Network.newNetwork();
                var zookeeper = new GenericContainer<>(IMAGE)
                        .withNetwork(network)
                        .withNetworkAliases("zookeeper")
                        .withEnv("ZOOKEEPER_CLIENT_PORT", "2181")) {
            for (int id = 1; id <= 3; id++) {
                brokers.put(id, new KafkaContainer(APACHE)
                        .withNetwork(network)
                        .withEnv("KAFKA_NODE_ID", Integer.toString(id))
                        // In place of KRaft's quorum: the controller is one of the brokers, and each of them can be killed.
                        .withEnv("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181")
                        .withEnv("KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS", "6000")
                        .withEnv("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "3"));
            }
            zookeeper.start();
            Startables.deepStart(brokers.values()).get(3, TimeUnit.MINUTES);
            String bootstrap =
                    brokers.values().stream().map(KafkaContainer::getBootstrapServers).collect(Collectors.joining(","));
            goesOn(bootstrap, 3, () -> {
                int killed = controller(bootstrap, -1);
                var container = brokers.get(killed);
                container.getDockerClient().killContainerCmd(container.getContainerId()).exec();
                assertNotEquals(killed, controller(bootstrap, killed));
            });
        } finally {
            brokers.values().forEach(KafkaContainer::stop);
        }
    }

    /** Something that happens between two records. */
    private interface Event {
        void happen() throws Exception;
    }

    /** Produces before and after an event, and reads both records with a group. */
    private static void goesOn(String bootstrap, int replicas, Event event) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "acks", "all", "delivery.timeout.ms", 90_000);
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic("orders", 1, (short) replicas))).all().get(60, TimeUnit.SECONDS);
        }
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "before")).get(90, TimeUnit.SECONDS);
            event.happen();
            producer.send(new ProducerRecord<>("orders", "after")).get(90, TimeUnit.SECONDS);
        }
        assertEquals(List.of("before", "after"), read(bootstrap));
    }

    /** Returns the id of the controller, as soon as it is another broker than `before`. */
    private static int controller(String bootstrap, int before) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            for (Instant end = Instant.now().plusSeconds(60); Instant.now().isBefore(end); Thread.sleep(200)) {
                Node found = admin.describeCluster().controller().get(60, TimeUnit.SECONDS);
                if (found != null && found.id() >= 0 && found.id() != before) {
                    return found.id();
                }
            }
        }
        throw new AssertionError("no controller other than " + before + " within a minute");
    }

    private static List<String> read(String bootstrap) {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", bootstrap, "group.id", "readers", "auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            for (Instant end = Instant.now().plusSeconds(60); values.size() < 2 && Instant.now().isBefore(end); ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
        }
        return values;
    }
}
