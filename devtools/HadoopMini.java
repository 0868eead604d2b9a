/*
 * Runs a small HDFS, and a small YARN if asked to, in one process on free ports, until it is ended:
 * HadoopMini FOLDER CONFIGURATION hdfs|yarn. Their files are in FOLDER. When they are ready, it prints the URL of the
 * file system and a port of 127.0.0.1; the settings with which clients find them are then in the folder CONFIGURATION.
 * Each connection to the port sends one line, such as "stop namenode" or "start datanode", and is closed once that is
 * done.
 */

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler;

public class HadoopMini {
    private static final int NODE_MANAGERS = 2;
    private static final int START_TIMEOUT_MS = 60_000;

    public static void main(String[] arguments) {
        try {
            run(Path.of(arguments[0]), Path.of(arguments[1]), arguments[2].equals("yarn"));
        } catch (Throwable failure) {
            failure.printStackTrace();
            // Threads of the servers that have started would keep the process.
            System.exit(1);
        }
    }

    private static void run(Path folder, Path configuration, boolean withYarn) throws Exception {
        MiniDFSCluster hdfs = new MiniDFSCluster.Builder(new HdfsConfiguration(), folder.resolve("hdfs").toFile())
            .numDataNodes(1).build();
        hdfs.waitClusterUp();
        if (withYarn) {
            write(startYarn().getConfig(), configuration.resolve("yarn-site.xml"));
        }
        Configuration core = new Configuration(false);
        core.set("fs.defaultFS", hdfs.getURI().toString());
        write(core, configuration.resolve("core-site.xml"));
        try (ServerSocket control = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            System.out.println("Hadoop is ready at " + hdfs.getURI() + ", controlled by port " + control.getLocalPort());
            MiniDFSCluster.DataNodeProperties stopped = null;
            while (true) {
                try (Socket connection = control.accept()) {
                    stopped = changed(hdfs, stopped, lineFrom(connection));
                }
            }
        }
    }

    /** Stops or starts a node; returns the data node that is stopped then. */
    private static MiniDFSCluster.DataNodeProperties changed(
        MiniDFSCluster hdfs, MiniDFSCluster.DataNodeProperties stopped, String command
    ) throws Exception {
        switch (command) {
            case "stop namenode" -> hdfs.shutdownNameNode(0);
            case "start namenode" -> hdfs.restartNameNode(0, true);
            case "stop datanode" -> {
                return hdfs.stopDataNode(0);
            }
            case "start datanode" -> {
                hdfs.restartDataNode(stopped, true);
                hdfs.waitActive();
                return null;
            }
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
        return stopped;
    }

    private static String lineFrom(Socket connection) throws IOException {
        return new BufferedReader(new InputStreamReader(connection.getInputStream())).readLine();
    }

    private static MiniYARNCluster startYarn() throws Exception {
        MiniYARNCluster yarn = new MiniYARNCluster("yarn", NODE_MANAGERS, 1, 1);
        yarn.init(yarnSettings());
        yarn.start();
        if (!yarn.waitForNodeManagersToConnect(START_TIMEOUT_MS)) {
            throw new IllegalStateException("the node managers did not register");
        }
        return yarn;
    }

    private static YarnConfiguration yarnSettings() {
        YarnConfiguration settings = new YarnConfiguration();
        settings.setInt(YarnConfiguration.YARN_MINICLUSTER_NM_PMEM_MB, 2048);
        settings.setInt(YarnConfiguration.NM_VCORES, 2);
        settings.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
        // Java reserves far more addresses than it uses memory.
        settings.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false);
        // A node manager whose disk is fuller than this takes no container, and an application then waits for ever.
        settings.setFloat(YarnConfiguration.NM_MAX_PER_DISK_UTILIZATION_PERCENTAGE, 100);
        // The other scheduler needs a file with queues, and gives application masters a tenth of the memory.
        settings.setClass(YarnConfiguration.RM_SCHEDULER, FifoScheduler.class, Object.class);
        return settings;
    }

    private static void write(Configuration settings, Path file) throws IOException {
        try (OutputStream output = Files.newOutputStream(file)) {
            settings.writeXml(output);
        }
    }
}
