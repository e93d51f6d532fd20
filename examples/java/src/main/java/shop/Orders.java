package shop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.sql.SQLException;
import java.util.Map;
import java.util.UUID;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/**
 * The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id. A line of
 * stdin stands for an HTTP request. PGHOST, PGPORT, PGDATABASE and PGUSER name the database.
 */
class Orders {
    private static final ObjectMapper JSON = new ObjectMapper();

    // begin: emit
    /** Emits in the session's transaction: there is an event if, and only if, that commits. */
    static UUID emit(Session session, String aggregateType, String aggregateId, String eventType, Object payload) {
        session.flush(); // Hibernate does not know what a query of SQL is about, and the order of statements counts
        return session.createNativeQuery("select outbox.emit(:type, :id, :event, cast(:payload as jsonb))", UUID.class)
                .setParameter("type", aggregateType)
                .setParameter("id", aggregateId)
                .setParameter("event", eventType)
                .setParameter("payload", JSON.valueToTree(payload).toString())
                .getSingleResult();
    }

    static long placeOrder(Session session, String customer, long cents) {
        var order = new Order(customer, cents);
        session.persist(order); // inserts the row now, as its id comes from the database
        var payload = Map.of("order_id", order.id, "customer", customer, "cents", cents);
        emit(session, "order", order.id.toString(), "order.placed", payload);
        return order.id;
    }
    // end: emit

    static String handle(SessionFactory sessions, JsonNode request) {
        var customer = request.required("customer").asText();
        var cents = request.required("cents").asLong();
        try {
            // Commits at its end, and rolls back on any exception.
            return Long.toString(sessions.fromTransaction(session -> placeOrder(session, customer, cents)));
        } catch (RuntimeException error) { // neither order nor event
            // A constraint, also one of the commit, whose error Hibernate wraps in another class.
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof SQLException refusal && refusal.getSQLState().startsWith("23")) {
                    return "refused: " + refusal.getMessage().lines().findFirst().orElse("");
                }
            }
            throw error;
        }
    }

    public static void main(String[] arguments) throws IOException {
        var environment = System.getenv();
        var configuration = new Configuration()
                .addAnnotatedClass(Order.class)
                .setProperty("hibernate.connection.url", Database.url(environment))
                .setProperty("hibernate.connection.username", environment.get("PGUSER"));
        try (var sessions = configuration.buildSessionFactory();
                var lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (var line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(handle(sessions, JSON.readTree(line)));
            }
        }
    }
}
