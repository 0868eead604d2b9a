import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Prints what Kafka's assignors make of the cases on standard input, a line each.
 *
 * A case is: the assignor, a tab, topics `t0=r1+r2,r1;t1=...` with the racks of each partition's replicas, a tab,
 * members `id|t0,t1|t0-0,t0-1|generation|instance|rack;...`. An answer is `id=t0-0,t0-1;...`, members by id.
 */
public class Assignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, "UTF-8");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t", -1);
            try {
                output.println(answer(parts[0], parts[1], parts[2]));
            } catch (RuntimeException failure) {
                output.println(failure.getClass().getSimpleName());
            }
        }
    }

    private static String answer(String name, String topics, String members) {
        ConsumerPartitionAssignor assignor = assignor(name);
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (String member : members.split(";")) {
            String[] fields = member.split("\\|", -1);
            subscriptions.put(fields[0], subscription(name, fields));
        }
        Map<String, Assignment> assigned =
            assignor.assign(cluster(topics), new GroupSubscription(subscriptions)).groupAssignment();
        List<String> shown = new ArrayList<>();
        new TreeMap<>(assigned).forEach((member, assignment) -> {
            List<TopicPartition> partitions = new ArrayList<>(assignment.partitions());
            partitions.sort((a, b) -> a.topic().equals(b.topic())
                ? Integer.compare(a.partition(), b.partition()) : a.topic().compareTo(b.topic()));
            List<String> texts = new ArrayList<>();
            partitions.forEach(partition -> texts.add(partition.toString()));
            shown.add(member + "=" + String.join(",", texts));
        });
        return String.join(";", shown);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static Subscription subscription(String name, String[] fields) {
        List<String> topics = list(fields[1]);
        List<TopicPartition> owned = new ArrayList<>();
        for (String text : list(fields[2])) {
            int dash = text.lastIndexOf('-');
            owned.add(new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1))));
        }
        int generation = Integer.parseInt(fields[3]);
        ByteBuffer data = null;
        if (name.equals("sticky")) {
            StickyAssignor last = new StickyAssignor();
            last.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
            data = last.subscriptionUserData(new HashSet<>(topics));
        }
        Optional<String> rack = fields[5].isEmpty() ? Optional.empty() : Optional.of(fields[5]);
        Subscription subscription = new Subscription(topics, data, owned, generation, rack);
        if (!fields[4].isEmpty()) {
            subscription.setGroupInstanceId(Optional.of(fields[4]));
        }
        return subscription;
    }

    private static Cluster cluster(String text) {
        List<PartitionInfo> infos = new ArrayList<>();
        for (String topic : list(text, ";")) {
            String[] halves = topic.split("=", -1);
            int number = 0;
            for (String racks : halves[1].split(",", -1)) {
                List<Node> nodes = new ArrayList<>();
                for (String rack : list(racks, "\\+")) {
                    nodes.add(new Node(nodes.size(), "h", 1, rack));
                }
                Node[] replicas = nodes.toArray(new Node[0]);
                infos.add(new PartitionInfo(halves[0], number++, Node.noNode(), replicas, replicas));
            }
        }
        return new Cluster("c", new ArrayList<>(), infos, new HashSet<>(), new HashSet<>());
    }

    private static List<String> list(String text) {
        return list(text, ",");
    }

    private static List<String> list(String text, String separator) {
        return text.isEmpty() ? List.of() : Arrays.asList(text.split(separator));
    }
}
