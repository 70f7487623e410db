import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

/** Reads groups, one per line (assignor|topic=count,...|member:instance:topic topic,...); prints what Java assigns. */
public class Assign {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split("\\|");
            Node node = new Node(0, "h", 1);
            List<PartitionInfo> infos = new ArrayList<>();
            for (String topic : parts[1].split(",")) {
                String[] pair = topic.split("=");
                for (int n = 0; n < Integer.parseInt(pair[1]); n++)
                    infos.add(new PartitionInfo(pair[0], n, node, new Node[]{node}, new Node[]{node}));
            }
            Map<String, Subscription> members = new HashMap<>();
            for (String member : parts[2].split(",")) {
                String[] fields = member.split(":");
                Subscription subscription = new Subscription(Arrays.asList(fields[2].split(" ")));
                if (!fields[1].isEmpty()) subscription.setGroupInstanceId(Optional.of(fields[1]));
                members.put(fields[0], subscription);
            }
            ConsumerPartitionAssignor assignor = parts[0].equals("range") ? new RangeAssignor() : new RoundRobinAssignor();
            Cluster cluster = new Cluster("c", List.of(node), infos, Set.of(), Set.of());
            Map<String, Assignment> result = assignor.assign(cluster, new GroupSubscription(members)).groupAssignment();
            System.out.println(result.entrySet().stream().sorted(Map.Entry.comparingByKey())
                .map(e -> e.getKey() + ":" + e.getValue().partitions().stream()
                    .map(tp -> tp.topic() + "-" + tp.partition()).sorted().collect(Collectors.joining(" ")))
                .collect(Collectors.joining(",")));
        }
    }
}
