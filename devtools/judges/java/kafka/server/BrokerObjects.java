package kafka.server;

import static org.mockito.Mockito.RETURNS_DEFAULTS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.cluster.Partition;
import kafka.controller.ControllerContext;
import kafka.controller.KafkaController;
import kafka.log.LogManager;
import kafka.log.UnifiedLog;
import kafka.network.SocketServer;
import kafka.server.metadata.ZkMetadataCache;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.NotLeaderOrFollowerException;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataBroker;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataEndpoint;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataPartitionState;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.UpdateMetadataRequest;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The objects of Kafka's broker that its tests look into, for a broker that is a process.
 *
 * <p>Each method that can be answered by a request to that broker is; any other fails with its name, so that the test that
 * calls it fails, too.
 */
final class BrokerObjects {
    private static final short METADATA_VERSION = 12;
    private static final short UPDATE_METADATA_VERSION = 8;
    private static final int DELETED = -2;
    private static final long REFRESH_NS = 20_000_000;

    private final BrokerProcess broker;
    private ZkMetadataCache cache;
    private List<TopicPartition> cached = List.of();
    private long refreshedNs;

    /** The result of a method, from its arguments. */
    interface Reply {
        Object to(Object[] arguments) throws IOException;
    }

    BrokerObjects(BrokerProcess broker) {
        this.broker = broker;
    }

    void brokerStarts() {
        cache = new ZkMetadataCache(
            broker.config().brokerId(), broker.config().interBrokerProtocolVersion(), broker.brokerFeatures(), false);
        cached = List.of();
    }

    <T extends AbstractResponse> T send(AbstractRequest request, Class<T> response) throws IOException {
        URI address = broker.endpoint(broker.config().interBrokerListenerName());
        return BrokerConnection.send(address, request, response);
    }

    /** An object whose methods, by name, give the replies; the others throw UnsupportedOperationException. */
    static <T> T object(Class<T> type, Map<String, Reply> replies) {
        return mock(type, withSettings().stubOnly().defaultAnswer(call -> {
            String name = call.getMethod().getName();
            if (replies.containsKey(name)) {
                return replies.get(name).to(call.getArguments());
            }
            if (name.contains("$default$") || name.equals("toString")) {
                return RETURNS_DEFAULTS.answer(call);
            }
            throw new UnsupportedOperationException(
                "the test calls " + type.getSimpleName() + "." + name + ", which no request can answer");
        }));
    }

    KafkaApis requestProcessor() {
        return object(KafkaApis.class, Map.of(
            "metadataCache", arguments -> metadataCache(),
            "clusterId", arguments -> broker.clusterId(),
            "brokerId", arguments -> broker.config().brokerId()));
    }

    SocketServer socketServer() {
        return object(SocketServer.class, Map.of(
            "boundPort", arguments -> broker.boundPort((ListenerName) arguments[0])));
    }

    /** The harness asks the coordinator of groups for the configuration of its topic. */
    GroupCoordinator groupCoordinator() {
        Properties topic = new Properties();
        topic.put("cleanup.policy", "compact");
        topic.put("compression.type", "producer");
        topic.put("segment.bytes", "104857600");
        return object(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", arguments -> topic));
    }

    KafkaController controller() {
        scala.collection.mutable.HashMap<String, Uuid> ids = new scala.collection.mutable.HashMap<>();
        scala.collection.mutable.HashMap<Uuid, String> names = new scala.collection.mutable.HashMap<>();
        metadataCache().topicNamesToIds().forEach((name, id) -> {
            ids.put(name, id);
            names.put(id, name);
        });
        ControllerContext context = object(ControllerContext.class, Map.of(
            "topicIds", arguments -> ids,
            "topicNames", arguments -> names));
        return object(KafkaController.class, Map.of(
            "controllerContext", arguments -> context,
            "isActive", arguments -> broker.isController()));
    }

    ReplicaManager replicaManager() {
        return object(ReplicaManager.class, Map.of(
            "onlinePartition", arguments -> Option.apply(partition((TopicPartition) arguments[0])),
            "localLog", arguments -> Option.apply(log((TopicPartition) arguments[0])),
            "getLog", arguments -> Option.apply(log((TopicPartition) arguments[0])),
            "localLogOrException", arguments -> existing(log((TopicPartition) arguments[0]), arguments[0]),
            "getPartitionOrException", arguments -> existing(partition((TopicPartition) arguments[0]), arguments[0]),
            "metadataCache", arguments -> metadataCache(),
            "logManager", arguments -> logManager()));
    }

    LogManager logManager() {
        String directory = broker.logDirectory(broker.config().logDirs().mkString(","));
        return object(LogManager.class, Map.of(
            "liveLogDirs", arguments -> CollectionConverters.asScala(List.of(new File(directory))).toSeq(),
            "getLog", arguments -> Option.apply(log((TopicPartition) arguments[0])),
            "getOrCreateLog", arguments -> existing(log((TopicPartition) arguments[0]), arguments[0])));
    }

    private static Object existing(Object found, Object topicPartition) {
        if (found == null) {
            throw new NotLeaderOrFollowerException("the broker has no replica of " + topicPartition);
        }
        return found;
    }

    private UnifiedLog log(TopicPartition topicPartition) throws IOException {
        ReplicaLog log = new ReplicaLog(this, topicPartition);
        return broker.isRunning() && log.exists() ? log.object() : null;
    }

    private Partition partition(TopicPartition topicPartition) throws IOException {
        ReplicaLog log = new ReplicaLog(this, topicPartition);
        if (!broker.isRunning() || !log.exists()) {
            return null;
        }
        return object(Partition.class, Map.of(
            "getLeaderEpoch", arguments -> log.leaderEpoch(),
            "leaderLogIfLocal", arguments -> Option.apply(log.isLeader() ? log.object() : null),
            "log", arguments -> Option.apply(log.object()),
            "localLogOrException", arguments -> log.object(),
            "leaderReplicaIdOpt", arguments -> Option.apply(described(topicPartition).leader()),
            "inSyncReplicaIds", arguments -> scalaSet(described(topicPartition).isr())));
    }

    private UpdateMetadataPartitionState described(TopicPartition topicPartition) {
        return metadataCache().getPartitionInfo(topicPartition.topic(), topicPartition.partition()).get();
    }

    private static Object scalaSet(List<Integer> members) {
        List<Object> boxed = new ArrayList<>(members);
        return CollectionConverters.asScala(boxed).toSet();
    }

    /** The cache of Kafka's, filled with what the broker answers to Metadata. As before while the broker does not answer. */
    synchronized ZkMetadataCache metadataCache() {
        if (cache != null && broker.isRunning() && System.nanoTime() - refreshedNs > REFRESH_NS) {
            try {
                refresh();
            } catch (IOException | KafkaException unanswered) {
                return cache;
            } finally {
                refreshedNs = System.nanoTime();
            }
        }
        return cache;
    }

    private void refresh() throws IOException {
        MetadataResponseData described =
            send(MetadataRequest.Builder.allTopics().build(METADATA_VERSION), MetadataResponse.class).data();
        List<UpdateMetadataPartitionState> states = new ArrayList<>();
        List<TopicPartition> found = new ArrayList<>();
        Map<String, Uuid> ids = new HashMap<>();
        described.topics().forEach(topic -> {
            ids.put(topic.name(), topic.topicId());
            topic.partitions().forEach(partition -> {
                found.add(new TopicPartition(topic.name(), partition.partitionIndex()));
                states.add(state(topic.name(), partition));
            });
        });
        for (TopicPartition gone : cached) {
            if (!found.contains(gone)) {
                states.add(state(gone.topic(), new MetadataResponsePartition()
                    .setPartitionIndex(gone.partition()).setLeaderId(DELETED).setLeaderEpoch(DELETED)));
            }
        }
        cached = found;
        int controller = described.controllerId();
        UpdateMetadataRequest.Builder update = new UpdateMetadataRequest.Builder(
            UPDATE_METADATA_VERSION, controller, 1, 1, states, brokers(described), ids);
        cache.updateMetadata(1, update.build(UPDATE_METADATA_VERSION));
    }

    private static UpdateMetadataPartitionState state(String topic, MetadataResponsePartition partition) {
        return new UpdateMetadataPartitionState()
            .setTopicName(topic)
            .setPartitionIndex(partition.partitionIndex())
            .setControllerEpoch(1)
            .setLeader(partition.leaderId())
            .setLeaderEpoch(partition.leaderEpoch())
            .setIsr(partition.isrNodes())
            .setZkVersion(0)
            .setReplicas(partition.replicaNodes())
            .setOfflineReplicas(partition.offlineReplicas());
    }

    private List<UpdateMetadataBroker> brokers(MetadataResponseData described) {
        String listener = broker.config().interBrokerListenerName().value();
        List<UpdateMetadataBroker> brokers = new ArrayList<>();
        described.brokers().forEach(node -> brokers.add(new UpdateMetadataBroker()
            .setId(node.nodeId())
            .setRack(node.rack())
            .setEndpoints(List.of(new UpdateMetadataEndpoint()
                .setHost(node.host()).setPort(node.port()).setListener(listener).setSecurityProtocol((short) 0)))));
        return brokers;
    }
}
