package kafka.api;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * A consumer that is in no group, whatever its configuration says.
 *
 * <p>Kafka's harness gives every consumer a group, and even one that only assigns partitions asks the coordinator for
 * committed offsets. Without a group it judges Fetch and ListOffsets. A subscription to topics assigns all their partitions,
 * as in a group with one member; what commits offsets fails.
 */
public class ConsumerWithoutGroup<K, V> extends KafkaConsumer<K, V> {
    public ConsumerWithoutGroup(Properties config, Deserializer<K> keys, Deserializer<V> values) {
        super(withoutGroup(config), keys, values);
    }

    @Override
    public void subscribe(Collection<String> topics) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (String topic : topics) {
            partitionsFor(topic).forEach(each -> partitions.add(new TopicPartition(topic, each.partition())));
        }
        assign(partitions);
    }

    private static Properties withoutGroup(Properties config) {
        Properties kept = new Properties();
        kept.putAll(config);
        kept.remove(ConsumerConfig.GROUP_ID_CONFIG);
        kept.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        return kept;
    }
}
