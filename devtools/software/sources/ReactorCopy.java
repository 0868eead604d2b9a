/*
 * Copies a topic with Reactor Kafka: ReactorCopy BOOTSTRAP SOURCE SINK FOLDER. It acknowledges a record when its copy
 * is acknowledged. It runs until it is ended.
 */

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.sender.KafkaSender;
import reactor.kafka.sender.SenderOptions;
import reactor.kafka.sender.SenderRecord;
import reactor.util.retry.Retry;

public class ReactorCopy {
    public static void main(String[] arguments) {
        KafkaSender<String, String> sender = KafkaSender.create(SenderOptions.<String, String>create(
            Map.<String, Object>of("bootstrap.servers", arguments[0], "acks", "all"))
            .withKeySerializer(new StringSerializer()).withValueSerializer(new StringSerializer()));
        KafkaReceiver<String, String> receiver = KafkaReceiver.create(ReceiverOptions.<String, String>create(
            Map.<String, Object>of(
                "bootstrap.servers", arguments[0], "group.id", "reactor-copy", "auto.offset.reset", "earliest"))
            .withKeyDeserializer(new StringDeserializer()).withValueDeserializer(new StringDeserializer())
            .commitInterval(Duration.ofSeconds(1))
            .subscription(List.of(arguments[1])));
        sender.send(receiver.receive().map(record ->
                SenderRecord.create(new ProducerRecord<>(arguments[2], record.key(), record.value()), record)))
            .doOnNext(sent -> {
                if (sent.exception() == null) {
                    sent.correlationMetadata().receiverOffset().acknowledge();
                }
            })
            .doOnError(Throwable::printStackTrace)
            .retryWhen(Retry.fixedDelay(1000, Duration.ofMillis(500)))
            .blockLast();
    }
}
