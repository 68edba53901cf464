import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Prints the partition that Kafka's own producer gives to each key on stdin, of as many as the argument says. */
public class Partitions {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[0]);
        var keys = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String key; (key = keys.readLine()) != null; ) {
            System.out.println(BuiltInPartitioner.partitionForKey(key.getBytes(StandardCharsets.UTF_8), partitions));
        }
    }
}
