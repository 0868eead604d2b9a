package kafka.server;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.controller.KafkaController;
import kafka.log.LogManager;
import kafka.server.metadata.ZkMetadataCache;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import scala.Option;

/**
 * A KafkaServer of Kafka's test harness that is a process: the broker which the tests judge.
 *
 * <p>The process gets the harness's configuration as its {@code server.properties}. What the harness asks of the broker's
 * objects is answered by {@link BrokerObjects}, with requests to the process.
 *
 * <p>System properties: {@code judged.command}, the command without the file, one word a line; {@code judged.folder}, the
 * folder in which it is run; {@code judged.log}, the file that its output is appended to.
 */
public class BrokerProcess extends KafkaServer {
    /** How many processes were started: a test that starts none judges nothing. */
    public static final AtomicInteger STARTED = new AtomicInteger();

    private static final int REGISTRATION_TIMEOUT_MS = 40_000;
    private static final int SHUTDOWN_TIMEOUT_MS = 30_000;
    private static final int SESSION_TIMEOUT_MS = 30_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final BrokerObjects objects = new BrokerObjects(this);
    private ZooKeeper zooKeeper;
    private Process process;
    private JsonNode lastRegistration;

    public BrokerProcess(KafkaConfig config, Time time, Option<String> threadNamePrefix, boolean enableForwarding) {
        super(config, time, threadNamePrefix, enableForwarding);
        groupCoordinator_$eq(objects.groupCoordinator());
    }

    @Override
    public void startup() {
        try {
            zooKeeper = new ZooKeeper(config().zkConnect(), SESSION_TIMEOUT_MS, event -> { });
            objects.brokerStarts();
            dataPlaneRequestProcessor_$eq(objects.requestProcessor());
            socketServer_$eq(objects.socketServer());
            List<String> command = new ArrayList<>(List.of(System.getProperty("judged.command").split("\n")));
            command.add(serverProperties().toString());
            STARTED.incrementAndGet();
            process = new ProcessBuilder(command)
                .directory(new File(System.getProperty("judged.folder")))
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(new File(System.getProperty("judged.log"))))
                .start();
            awaitRegistration();
        } catch (IOException | InterruptedException error) {
            throw new KafkaException(error);
        }
    }

    /**
     * The harness's configuration as a file, with the last log directory alone, because a broker of ours has one, and with
     * the newest version that is released where the harness asks for one that is not.
     */
    private Path serverProperties() throws IOException {
        Properties properties = new Properties();
        config().originals().forEach((key, value) -> {
            if (value != null) {
                boolean listsDirectories = key.equals("log.dirs") || key.equals("log.dir");
                properties.put(key, listsDirectories ? logDirectory(value.toString()) : value.toString());
            }
        });
        if (config().interBrokerProtocolVersion().isAtLeast(MetadataVersion.latestProduction())) {
            properties.put("inter.broker.protocol.version", MetadataVersion.latestProduction().version());
        }
        Path file = Files.createTempFile(Path.of(System.getProperty("judged.log")).getParent(), "server", ".properties");
        try (OutputStream output = Files.newOutputStream(file)) {
            properties.store(output, null);
        }
        return file;
    }

    /** The directory that the broker uses of a list with commas. */
    String logDirectory(String directories) {
        return directories.substring(directories.lastIndexOf(',') + 1);
    }

    private void awaitRegistration() throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(REGISTRATION_TIMEOUT_MS);
        while ((lastRegistration = stored("/brokers/ids/" + config().brokerId())) == null) {
            if (!process.isAlive()) {
                throw new KafkaException("the broker's process ended with " + process.exitValue());
            }
            if (System.nanoTime() > deadline) {
                throw new KafkaException("the broker did not register within " + REGISTRATION_TIMEOUT_MS + " ms");
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void shutdown(Duration timeout) {
        if (process == null) {
            return;
        }
        try {
            zooKeeper.close();
            process.destroy();
            if (!process.waitFor(SHUTDOWN_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            throw new KafkaException(error);
        }
    }

    @Override
    public void awaitShutdown() {
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            throw new KafkaException(error);
        }
    }

    boolean isRunning() {
        return process != null && process.isAlive();
    }

    @Override
    public BrokerState brokerState() {
        return isRunning() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
    }

    @Override
    public int boundPort(ListenerName listener) {
        return endpoint(listener).getPort();
    }

    @Override
    public ZkMetadataCache metadataCache() {
        return objects.metadataCache();
    }

    @Override
    public KafkaController kafkaController() {
        return objects.controller();
    }

    @Override
    public ReplicaManager replicaManager() {
        return objects.replicaManager();
    }

    @Override
    public LogManager logManager() {
        return objects.logManager();
    }

    /** The address under which the broker is, or was last, registered for a listener. */
    URI endpoint(ListenerName listener) {
        JsonNode registration = isRunning() ? stored("/brokers/ids/" + config().brokerId()) : null;
        if (registration != null) {
            lastRegistration = registration;
        }
        if (lastRegistration == null) {
            throw new KafkaException("broker " + config().brokerId() + " was never registered");
        }
        for (JsonNode endpoint : lastRegistration.get("endpoints")) {
            if (endpoint.asText().startsWith(listener.value() + "://")) {
                return URI.create(endpoint.asText());
            }
        }
        throw new KafkaException("the broker has no listener " + listener.value());
    }

    @Override
    public String clusterId() {
        return stored("/cluster/id").get("id").asText();
    }

    boolean isController() {
        JsonNode controller = isRunning() ? stored("/controller") : null;
        return controller != null && controller.get("brokerid").asInt() == config().brokerId();
    }

    /** The JSON in a znode, or null if there is no such znode. */
    private JsonNode stored(String path) {
        try {
            return JSON.readTree(zooKeeper.getData(path, false, null));
        } catch (KeeperException.NoNodeException absent) {
            return null;
        } catch (KeeperException | IOException | InterruptedException error) {
            throw new KafkaException(error);
        }
    }
}
