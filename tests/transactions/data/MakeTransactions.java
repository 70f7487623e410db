import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Leaves transactional ids in several states on a broker, and prints what the broker says of them as JSON. */
public class MakeTransactions {
    static String bootstrap;

    static KafkaProducer<String, String> producer(String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("transactional.id", id);
        p.put("transaction.timeout.ms", "60000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static void write(KafkaProducer<String, String> producer, String value) throws Exception {
        producer.send(new ProducerRecord<>("orders", 0, null, value)).get();
        producer.send(new ProducerRecord<>("orders", 1, null, value)).get();
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic("orders", 2, (short) 1))).all().get();
            producer("empty");
            KafkaProducer<String, String> committed = producer("committed");
            committed.beginTransaction();
            write(committed, "committed-1");
            committed.sendOffsetsToTransaction(
                Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(1)), new ConsumerGroupMetadata("shop"));
            committed.commitTransaction();
            KafkaProducer<String, String> aborted = producer("aborted");
            aborted.beginTransaction();
            write(aborted, "committed-2");
            aborted.commitTransaction();
            aborted.beginTransaction();
            write(aborted, "aborted-1");
            aborted.abortTransaction();
            KafkaProducer<String, String> open = producer("open");
            open.beginTransaction();
            write(open, "open-1");
            committed.beginTransaction();
            write(committed, "committed-behind-the-open-one");
            committed.commitTransaction();
            Thread.sleep(1000);
            List<String> ids = List.of("empty", "committed", "aborted", "open");
            StringBuilder out = new StringBuilder("{\"transactions\": {");
            admin.describeTransactions(ids).all().get().forEach((id, d) -> out.append(String.format(
                "%s\"%s\": [\"%s\", %d, %d, %d]", out.charAt(out.length() - 1) == '{' ? "" : ", ", id, d.state(),
                d.producerId(), d.producerEpoch(), d.topicPartitions().size())));
            out.append("}, \"orders\": {");
            for (int partition = 0; partition < 2; partition++) {
                TopicPartition tp = new TopicPartition("orders", partition);
                long lso = admin.listOffsets(Map.of(tp, OffsetSpec.latest()),
                    new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(tp).get().offset();
                long end = admin.listOffsets(Map.of(tp, OffsetSpec.latest())).partitionResult(tp).get().offset();
                out.append(String.format("%s\"%d\": {\"lso\": %d, \"end\": %d, \"producers\": [",
                    partition == 0 ? "" : ", ", partition, lso, end));
                var states = admin.describeProducers(List.of(tp)).partitionResult(tp).get().activeProducers();
                for (var s : states)
                    out.append(String.format("%s[%d, %d, %d, %d]", out.charAt(out.length() - 1) == '[' ? "" : ", ",
                        s.producerId(), s.producerEpoch(), s.lastSequence(), s.currentTransactionStartOffset().orElse(-1)));
                out.append("]}");
            }
            System.out.println(out.append("}}"));
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
    }
}
