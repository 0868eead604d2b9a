/*
 * Copies a topic with Spring for Apache Kafka: SpringCopy BOOTSTRAP SOURCE SINK FOLDER. A listener container commits a
 * record when the template has been acknowledged its copy. It runs until it is ended.
 */

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.ContainerProperties.AckMode;
import org.springframework.kafka.listener.MessageListener;

public class SpringCopy {
    public static void main(String[] arguments) {
        KafkaTemplate<String, String> template = new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(
            Map.<String, Object>of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]),
            new StringSerializer(), new StringSerializer()));
        ContainerProperties properties = new ContainerProperties(arguments[1]);
        properties.setGroupId("spring-copy");
        properties.setAckMode(AckMode.RECORD);
        properties.setMessageListener((MessageListener<String, String>) record -> {
            try {
                template.send(arguments[2], record.key(), record.value()).get(3, TimeUnit.MINUTES);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        ConcurrentMessageListenerContainer<String, String> container = new ConcurrentMessageListenerContainer<>(
            new DefaultKafkaConsumerFactory<>(
                Map.<String, Object>of(
                    ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
                    ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
                new StringDeserializer(), new StringDeserializer()),
            properties);
        container.setConcurrency(2);
        Runtime.getRuntime().addShutdownHook(new Thread(container::stop));
        container.start();
    }
}
