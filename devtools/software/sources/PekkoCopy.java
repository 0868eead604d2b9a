/*
 * Copies a topic with the Kafka connector of Pekko: PekkoCopy BOOTSTRAP SOURCE SINK FOLDER. A committable sink commits a
 * record when its copy is acknowledged. It runs until it is ended.
 */

import java.time.Duration;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.kafka.CommitterSettings;
import org.apache.pekko.kafka.ConsumerSettings;
import org.apache.pekko.kafka.ProducerMessage;
import org.apache.pekko.kafka.ProducerSettings;
import org.apache.pekko.kafka.Subscriptions;
import org.apache.pekko.kafka.javadsl.Consumer;
import org.apache.pekko.kafka.javadsl.Producer;
import org.apache.pekko.stream.RestartSettings;
import org.apache.pekko.stream.javadsl.RestartSource;
import org.apache.pekko.stream.javadsl.Sink;

public class PekkoCopy {
    public static void main(String[] arguments) {
        ActorSystem system = ActorSystem.create("copy");
        ConsumerSettings<String, String> reading = ConsumerSettings
            .create(system, new StringDeserializer(), new StringDeserializer())
            .withBootstrapServers(arguments[0])
            .withGroupId("pekko-copy")
            .withProperty("auto.offset.reset", "earliest");
        ProducerSettings<String, String> writing = ProducerSettings
            .create(system, new StringSerializer(), new StringSerializer())
            .withBootstrapServers(arguments[0])
            .withProperty("acks", "all");
        RestartSettings restarts = RestartSettings.create(Duration.ofMillis(200), Duration.ofSeconds(2), 0.2);
        RestartSource.onFailuresWithBackoff(restarts, () ->
                Consumer.committableSource(reading, Subscriptions.topics(arguments[1]))
                    .map(read -> ProducerMessage.single(
                        new ProducerRecord<String, String>(arguments[2], read.record().value()),
                        read.committableOffset()))
                    .via(Producer.flexiFlow(writing))
                    .map(ProducerMessage.Results::passThrough)
                    .via(org.apache.pekko.kafka.javadsl.Committer.flow(CommitterSettings.create(system))))
            .runWith(Sink.ignore(), system);
    }
}
