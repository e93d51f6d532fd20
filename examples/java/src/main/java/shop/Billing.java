package shop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Billing: adds up what each customer owes, each order once, however often its event arrives. PGHOST, PGPORT,
 * PGDATABASE, PGUSER and PGPASSWORD name the database, KAFKA the brokers. SIGTERM ends it in order. An exception that
 * no record causes ends it: start it again, as systemd or Kubernetes would, and it continues where it was.
 */
class Billing {
    private static final ObjectMapper JSON =
            new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
    /** All processes that share the work have the same name. */
    private static final String NAME = System.getenv().getOrDefault("CONSUMER", "billing");
    private static volatile boolean stopping;

    private static String header(ConsumerRecord<byte[], byte[]> record, String key) {
        var header = record.headers().lastHeader(key);
        return header == null || header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8);
    }

    // begin: consume
    /** The mark and the effect are of one transaction. The caller commits it. */
    private static void process(Connection connection, ConsumerRecord<byte[], byte[]> record)
            throws SQLException, IOException {
        try (var mark = connection.prepareStatement("select outbox.mark_processed(cast(? as uuid), ?)")) {
            mark.setString(1, header(record, "id"));
            mark.setString(2, NAME);
            var answer = mark.executeQuery();
            answer.next();
            if (!answer.getBoolean(1) || !"order.placed".equals(header(record, "event_type"))) {
                return; // a repetition, or an event that billing has no use for
            }
        }
        var order = JSON.readTree(record.value() == null ? new byte[0] : record.value());
        try (var effect = connection.prepareStatement("""
                insert into balances as b values (?, 1, cast(? as bigint)) on conflict (customer)
                do update set orders = b.orders + 1, cents = b.cents + excluded.cents""")) {
            effect.setString(1, order.path("customer").textValue()); // null unless it is a text
            effect.setString(2, order.path("cents").asText(null));
            effect.executeUpdate();
        }
    }
    // end: consume

    /**
     * What only the record is to blame for: no JSON, errors about data (class 22), constraints (class 23), and limits,
     * such as that of an index (class 54).
     */
    private static boolean isPoison(Exception error) {
        return error instanceof JsonProcessingException
                || error instanceof SQLException refusal && refusal.getSQLState() != null
                        && refusal.getSQLState().matches("(22|23|54).*");
    }

    private static void setAside(Connection connection, ConsumerRecord<byte[], byte[]> record, Exception error)
            throws SQLException {
        try (var refusal = connection.prepareStatement(
                "insert into refused_records values (?, ?, ?, ?, ?) on conflict do nothing")) {
            refusal.setString(1, record.topic());
            refusal.setInt(2, record.partition());
            refusal.setLong(3, record.offset());
            refusal.setBytes(4, record.value());
            refusal.setString(5, error.getMessage());
            refusal.executeUpdate();
        }
    }

    /** What can never be processed must not stop what is behind it. */
    private static void consume(Connection connection, ConsumerRecord<byte[], byte[]> record) throws Exception {
        try {
            process(connection, record);
        } catch (Exception error) {
            if (!isPoison(error)) {
                throw error; // which ends the connection, and with it the transaction
            }
            connection.rollback(); // the mark too
            setAside(connection, record, error);
        }
        connection.commit();
    }

    private static void run(Connection connection, KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        connection.setAutoCommit(false); // with it, each statement would be a transaction
        while (!stopping) {
            for (var record : consumer.poll(Duration.ofSeconds(1))) {
                consume(connection, record);
            }
            try {
                consumer.commitSync(); // all that poll() gave; after their transactions have committed
            } catch (CommitFailedException | RebalanceInProgressException error) {
                // Another member has, or gets, the partitions: it reads these records again.
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("KAFKA"));
        settings.put("group.id", NAME);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false"); // it would commit what may not be processed yet
        settings.put("session.timeout.ms", "6000"); // how long a killed member keeps its partitions
        settings.put("heartbeat.interval.ms", "2000");
        var bytes = new ByteArrayDeserializer();
        var consumer = new KafkaConsumer<>(settings, bytes, bytes);
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true; // with wakeup() the offsets of the last records would not be committed
            try {
                main.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        try (consumer; // leaves the group at its end
                var connection = DriverManager.getConnection(Database.url(System.getenv()), System.getenv("PGUSER"),
                        Database.password(System.getenv()))) {
            consumer.subscribe(List.of(System.getenv().getOrDefault("TOPIC", "outbox.event.order")));
            run(connection, consumer);
        }
    }
}
