package kafka.api;

import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * A consumer that is in no group, whatever its configuration says.
 *
 * <p>Kafka's harness gives every consumer a group, and one that only assigns partitions asks the coordinator for committed
 * offsets, too. Without a group such a consumer judges Fetch and ListOffsets; one that subscribes fails.
 */
public class ConsumerWithoutGroup<K, V> extends KafkaConsumer<K, V> {
    public ConsumerWithoutGroup(Properties config, Deserializer<K> keys, Deserializer<V> values) {
        super(withoutGroup(config), keys, values);
    }

    private static Properties withoutGroup(Properties config) {
        Properties kept = new Properties();
        kept.putAll(config);
        kept.remove(ConsumerConfig.GROUP_ID_CONFIG);
        kept.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        return kept;
    }
}
