/*
 * Copies a topic with Kafka Streams, through a repartition topic and a store that counts: StreamsCopy BOOTSTRAP SOURCE
 * SINK FOLDER. It runs until it is ended.
 */

import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

public class StreamsCopy {
    static class Counting extends ContextualProcessor<String, String, String, String> {
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            counts = context.getStateStore("counts");
        }

        @Override
        public void process(Record<String, String> record) {
            Long before = counts.get(record.key());
            counts.put(record.key(), before == null ? 1L : before + 1L);
            context().forward(record);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams-copy");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);

        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("counts"), Serdes.String(), Serdes.Long()));
        builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, value) -> String.valueOf(Integer.parseInt(value) % 16))
            .repartition(Repartitioned.<String, String>with(Serdes.String(), Serdes.String()).withName("by-number"))
            .process(Counting::new, "counts")
            .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }
}
