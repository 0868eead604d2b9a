package kafka.server;

import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import kafka.log.UnifiedLog;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DeleteRecordsRequestData;
import org.apache.kafka.common.message.DeleteRecordsRequestData.DeleteRecordsPartition;
import org.apache.kafka.common.message.DeleteRecordsRequestData.DeleteRecordsTopic;
import org.apache.kafka.common.message.DescribeLogDirsRequestData;
import org.apache.kafka.common.message.DescribeLogDirsResponseData.DescribeLogDirsPartition;
import org.apache.kafka.common.message.DescribeLogDirsResponseData.DescribeLogDirsResult;
import org.apache.kafka.common.message.DescribeLogDirsResponseData.DescribeLogDirsTopic;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsTopic;
import org.apache.kafka.common.message.ListOffsetsResponseData.ListOffsetsPartitionResponse;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceDataCollection;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.FileRecords.TimestampAndOffset;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.requests.DeleteRecordsRequest;
import org.apache.kafka.common.requests.DeleteRecordsResponse;
import org.apache.kafka.common.requests.DescribeLogDirsRequest;
import org.apache.kafka.common.requests.DescribeLogDirsResponse;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.ListOffsetsResponse;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** One replica on a broker that is a process: what Kafka's UnifiedLog has of it, asked and changed by requests. */
final class ReplicaLog {
    private static final short LIST_OFFSETS_VERSION = 9;
    private static final short FETCH_VERSION = 12;
    private static final int TIMEOUT_MS = 10_000;
    private static final int FETCH_BYTES = 1024;
    private static final int CONSUMER = ListOffsetsRequest.CONSUMER_REPLICA_ID;
    private static final int ANY_REPLICA = ListOffsetsRequest.DEBUGGING_REPLICA_ID;

    private final BrokerObjects broker;
    private final TopicPartition topicPartition;

    ReplicaLog(BrokerObjects broker, TopicPartition topicPartition) {
        this.broker = broker;
        this.topicPartition = topicPartition;
    }

    UnifiedLog object() {
        return BrokerObjects.object(UnifiedLog.class, Map.ofEntries(
            Map.entry("logStartOffset", arguments -> offset(ListOffsetsRequest.EARLIEST_TIMESTAMP)),
            Map.entry("logEndOffset", arguments -> offset(ListOffsetsRequest.LATEST_TIMESTAMP)),
            Map.entry("highWatermark", arguments -> highWatermark()),
            Map.entry("fetchOffsetByTimestamp", arguments -> recordAt((Long) arguments[0])),
            Map.entry("legacyFetchOffsetsBefore",
                arguments -> segmentsBefore((Long) arguments[0], (Integer) arguments[1])),
            Map.entry("appendAsLeader", arguments -> append((MemoryRecords) arguments[0])),
            Map.entry("maybeIncrementLogStartOffset", arguments -> deleteRecords((Long) arguments[0])),
            Map.entry("dir", arguments -> new File(described().getKey(), topicPartition.toString())),
            Map.entry("size", arguments -> described().getValue().partitionSize()),
            // Neither changes what a client can see, and a leader without followers moves its own high watermark.
            Map.entry("flush", arguments -> null),
            Map.entry("updateHighWatermark", arguments -> highWatermark())));
    }

    boolean exists() throws IOException {
        return listOffsets(ANY_REPLICA, ListOffsetsRequest.LATEST_TIMESTAMP).errorCode() == Errors.NONE.code();
    }

    boolean isLeader() throws IOException {
        Errors error = Errors.forCode(listOffsets(CONSUMER, ListOffsetsRequest.LATEST_TIMESTAMP).errorCode());
        return error == Errors.NONE || error == Errors.OFFSET_NOT_AVAILABLE;
    }

    int leaderEpoch() throws IOException {
        return listOffsets(ANY_REPLICA, ListOffsetsRequest.LATEST_TIMESTAMP).leaderEpoch();
    }

    private long offset(long timestamp) throws IOException {
        ListOffsetsPartitionResponse found = listOffsets(ANY_REPLICA, timestamp);
        Errors.forCode(found.errorCode()).maybeThrow();
        return found.offset();
    }

    private Option<TimestampAndOffset> recordAt(long timestamp) throws IOException {
        ListOffsetsPartitionResponse found = listOffsets(ANY_REPLICA, timestamp);
        Errors.forCode(found.errorCode()).maybeThrow();
        if (found.offset() < 0) {
            return Option.empty();
        }
        return Option.apply(new TimestampAndOffset(found.timestamp(), found.offset(), Optional.of(found.leaderEpoch())));
    }

    private Object segmentsBefore(long timestamp, int most) throws IOException {
        ListOffsetsPartition asked = new ListOffsetsPartition().setTimestamp(timestamp).setMaxNumOffsets(most);
        return CollectionConverters.asScala(listOffsets(ANY_REPLICA, asked, (short) 0).oldStyleOffsets()).toSeq();
    }

    private ListOffsetsPartitionResponse listOffsets(int replica, long timestamp) throws IOException {
        return listOffsets(replica, new ListOffsetsPartition().setTimestamp(timestamp), LIST_OFFSETS_VERSION);
    }

    private ListOffsetsPartitionResponse listOffsets(int replica, ListOffsetsPartition asked, short version)
            throws IOException {
        ListOffsetsTopic topic = new ListOffsetsTopic()
            .setName(topicPartition.topic())
            .setPartitions(List.of(asked.setPartitionIndex(topicPartition.partition())));
        ListOffsetsRequest request =
            ListOffsetsRequest.Builder.forReplica(version, replica).setTargetTimes(List.of(topic)).build(version);
        return broker.send(request, ListOffsetsResponse.class).topics().get(0).partitions().get(0);
    }

    /** The high watermark, which a Fetch of a follower's replica answers, too. */
    private long highWatermark() throws IOException {
        FetchRequest.PartitionData from = new FetchRequest.PartitionData(
            Uuid.ZERO_UUID, offset(ListOffsetsRequest.EARLIEST_TIMESTAMP), FetchRequest.INVALID_LOG_START_OFFSET, FETCH_BYTES,
            Optional.empty());
        FetchRequest request =
            FetchRequest.Builder.forConsumer(FETCH_VERSION, 0, 0, Map.of(topicPartition, from)).build(FETCH_VERSION);
        var found = broker.send(request, FetchResponse.class).data().responses().get(0).partitions().get(0);
        Errors.forCode(found.errorCode()).maybeThrow();
        return found.highWatermark();
    }

    private Object append(MemoryRecords records) throws IOException {
        ProduceRequestData data = new ProduceRequestData()
            .setAcks((short) -1)
            .setTimeoutMs(TIMEOUT_MS)
            .setTopicData(new TopicProduceDataCollection(List.of(new TopicProduceData()
                .setName(topicPartition.topic())
                .setPartitionData(List.of(new PartitionProduceData()
                    .setIndex(topicPartition.partition())
                    .setRecords(records)))).iterator()));
        ProduceRequest request = ProduceRequest.forCurrentMagic(data).build();
        var appended = broker.send(request, ProduceResponse.class).data().responses().iterator().next();
        Errors.forCode(appended.partitionResponses().get(0).errorCode()).maybeThrow();
        return null;
    }

    private boolean deleteRecords(long offset) throws IOException {
        DeleteRecordsRequestData data = new DeleteRecordsRequestData()
            .setTimeoutMs(TIMEOUT_MS)
            .setTopics(List.of(new DeleteRecordsTopic()
                .setName(topicPartition.topic())
                .setPartitions(List.of(new DeleteRecordsPartition()
                    .setPartitionIndex(topicPartition.partition())
                    .setOffset(offset)))));
        DeleteRecordsRequest request = new DeleteRecordsRequest.Builder(data).build();
        var deleted = broker.send(request, DeleteRecordsResponse.class).data().topics().iterator().next();
        Errors.forCode(deleted.partitions().iterator().next().errorCode()).maybeThrow();
        return true;
    }

    /** The log directory of the replica, and its description. */
    private Map.Entry<String, DescribeLogDirsPartition> described() throws IOException {
        DescribeLogDirsRequest request =
            new DescribeLogDirsRequest.Builder(new DescribeLogDirsRequestData().setTopics(null)).build();
        for (DescribeLogDirsResult directory : broker.send(request, DescribeLogDirsResponse.class).data().results()) {
            for (DescribeLogDirsTopic topic : directory.topics()) {
                for (DescribeLogDirsPartition partition : topic.partitions()) {
                    if (new TopicPartition(topic.name(), partition.partitionIndex()).equals(topicPartition)) {
                        return Map.entry(directory.logDir(), partition);
                    }
                }
            }
        }
        throw new KafkaException("no log directory of the broker holds " + topicPartition);
    }
}
