/*
 * Copies a topic with the Kafka client of Vert.x: VertxCopy BOOTSTRAP SOURCE SINK FOLDER. It commits a batch when every
 * copy of it is acknowledged. It runs until it is ended.
 */

import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.producer.KafkaProducer;
import io.vertx.kafka.client.producer.KafkaProducerRecord;
import io.vertx.kafka.client.producer.RecordMetadata;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class VertxCopy {
    public static void main(String[] arguments) {
        Vertx vertx = Vertx.vertx();
        KafkaConsumer<String, String> consumer = KafkaConsumer.create(vertx, Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", "vertx-copy",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            "key.deserializer", StringDeserializer.class.getName(),
            "value.deserializer", StringDeserializer.class.getName()));
        KafkaProducer<String, String> producer = KafkaProducer.create(vertx, Map.of(
            "bootstrap.servers", arguments[0],
            "acks", "all",
            "key.serializer", StringSerializer.class.getName(),
            "value.serializer", StringSerializer.class.getName()));
        consumer.exceptionHandler(Throwable::printStackTrace);
        consumer.handler(record -> { });
        consumer.batchHandler(records -> {
            consumer.pause();
            List<Future<RecordMetadata>> copies = new ArrayList<>();
            for (int number = 0; number < records.size(); number++) {
                copies.add(producer.send(
                    KafkaProducerRecord.create(arguments[2], records.recordAt(number).value())));
            }
            Future.all(copies)
                .compose(sent -> consumer.commit())
                .onFailure(Throwable::printStackTrace)
                .onComplete(done -> consumer.resume());
        });
        consumer.subscribe(arguments[1]).onFailure(Throwable::printStackTrace);
    }
}
