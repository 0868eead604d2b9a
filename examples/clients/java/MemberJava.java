/*
 * Is a member of a group with Apache Kafka's Java client as ../README.md says, until standard input is closed.
 *
 * With the jars of org.apache.kafka:kafka-clients:3.9.1 and of what it needs in libs/:
 *   javac -cp 'libs/*' MemberJava.java
 *   java -cp 'libs/*:.' MemberJava localhost:9092 orders readers
 */

import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class MemberJava implements ConsumerRebalanceListener {
    static volatile boolean stopping = false;

    static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void printPartitions(String event, Collection<TopicPartition> partitions) {
        String numbers = partitions.stream().map(TopicPartition::partition).sorted()
            .map(String::valueOf).collect(Collectors.joining(","));
        print("{\"event\":\"" + event + "\",\"partitions\":[" + numbers + "]}");
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        printPartitions("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        printPartitions("revoked", partitions);
    }

    static void waitForTheEnd() {
        try {
            while (System.in.read() >= 0) {
            }
        } catch (IOException closed) {
            // That is the end, too.
        }
        stopping = true;
    }

    public static void main(String[] arguments) {
        Thread waiting = new Thread(MemberJava::waitForTheEnd);
        waiting.setDaemon(true);
        waiting.start();
        Map<String, Object> config = Map.of(
            "bootstrap.servers", arguments[0], "group.id", arguments[2], "auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]), new MemberJava());
            print("{\"event\":\"ready\",\"client\":\"Apache Kafka's Java client\",\"version\":\""
                + AppInfoParser.getVersion() + "\"}");
            while (!stopping) {
                try {
                    consumer.poll(Duration.ofMillis(200)).forEach(record -> print("{\"event\":\"read\",\"value\":"
                        + record.value() + ",\"offset\":" + record.offset()
                        + ",\"partition\":" + record.partition() + "}"));
                } catch (KafkaException error) {
                    print("{\"event\":\"error\",\"error\":\"" + error.getClass().getSimpleName() + "\"}");
                }
            }
        }
        print("{\"event\":\"end\"}");
        System.exit(0);
    }
}
